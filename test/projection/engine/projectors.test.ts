import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import type pg from "pg";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import { applyBatch } from "../../../projection/engine/apply-batch.ts";
import { buildReadModelDdl } from "../../../projection/engine/ddl.ts";
import { startProjectors } from "../../../projection/engine/projectors.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { customers } from "../../../projection/read-models/customers.ts";
import { LeadershipLostError } from "../../../projection/roles/failure.ts";
import type { Role } from "../../../projection/roles/role.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog, EMPTY_STREAM, type EventLog, type RecordedEvent } from "../../../shared/eventstore/log.ts";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/log-end.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { createTestDataKeys } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { type OwnLog, startOwnLog } from "../../support/own-log.ts";
import type { TestDatabase } from "../../support/stack.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import { createEngineWorld } from "../engine-world.ts";

const logger = createLogger("test", "fatal");
const createRegisteredEvent = (customerId: string, fullName = "Ana Kos"): CatalogEvent => ({
  type: "CustomerRegistered",
  data: { customerId, clinicId: randomUUID(), fullName, phone: null, email: null, city: "Ljubljana" },
});
const createRenamedEvent = (customerId: string, fullName: string): CatalogEvent => ({
  type: "CustomerDetailsChanged",
  data: { customerId, fullName, phone: "+386 1 200", email: null, city: null },
});

describe("projectors", () => {
  let ownLog: OwnLog;
  let client: EventStoreDBClient;
  let log: EventLog;
  let database: TestDatabase;
  let pool: pg.Pool;
  const roles: Role[] = [];

  // The tests share the log and the database. Each test sees the events of all earlier tests.
  before(async () => {
    ownLog = await startOwnLog();
    client = connectEventStore(ownLog.eventstoreUrl, "test");
    log = createEventLog(client, { encryption: "off" });
    database = await createDatabaseWithReadModels();
    pool = createPool({
      url: database.urls.projection,
      applicationName: "test",
      size: 4,
      statementTimeoutMs: 5_000,
      logger,
    });
  });

  afterEach(() => Promise.all(roles.splice(0).map((role) => role.stop())));
  after(async () => {
    await pool.end();
    await client.dispose();
    await ownLog.stop();
    await database.drop();
  });

  const startRole = () => {
    const role = startProjectors({
      ...{ client, pool, dataKeys: createTestDataKeys(pool), databaseUrl: database.urls.projection },
      ...{ models: readModels, logger },
    });
    roles.push(role);
    return role;
  };
  const append = (id: string, expectedRevision: bigint, ...events: CatalogEvent[]) =>
    log.append(
      `customer-${id}`,
      expectedRevision,
      events.map((event) => ({ id: randomUUID(), event, metadata: createStoredMetadata() })),
    );
  const readRow = async (id: string) =>
    (await pool.query(`SELECT * FROM ${READ_MODEL_SCHEMA}.customer WHERE customer_id = $1`, [id])).rows[0];
  const waitForName = (id: string, fullName: string) =>
    eventually(`${fullName} in the read model`, async () => (await readRow(id))?.full_name === fullName);

  it("projectors process stored events first and then live events", async () => {
    const [earlyCustomerId, lateCustomerId] = [randomUUID(), randomUUID()];
    await append(
      earlyCustomerId,
      EMPTY_STREAM,
      createRegisteredEvent(earlyCustomerId),
      createRenamedEvent(earlyCustomerId, "Ana Novak"),
    );
    const role = startRole();
    await waitForName(earlyCustomerId, "Ana Novak");
    const position = await append(lateCustomerId, EMPTY_STREAM, createRegisteredEvent(lateCustomerId, "Live Lee"));
    await waitForName(lateCustomerId, "Live Lee");
    expect((await readCheckpoint(pool, READ_MODEL_SCHEMA)).position).to.equal(position);
    await eventually("running", () => role.getStatus().state === "running");
  });

  it("projectors continue from the checkpoint after a stop, and process no event twice", async () => {
    const id = randomUUID();
    await append(id, EMPTY_STREAM, createRegisteredEvent(id));
    const firstProjectors = startRole();
    await waitForName(id, "Ana Kos");
    await firstProjectors.stop();
    await pool.query(`UPDATE ${READ_MODEL_SCHEMA}.customer SET city = 'marker' WHERE customer_id = $1`, [id]);
    await append(id, 0n, createRenamedEvent(id, "Second Run"));
    startRole();
    await waitForName(id, "Second Run");
  });

  it("a standby takes over when the leading process stops", async () => {
    const id = randomUUID();
    const leader = startRole();
    await eventually("the leader runs", () => leader.getStatus().state === "running");
    const standby = startRole();
    await eventually("the second stands by", () => standby.getStatus().state === "standby");
    await leader.stop();
    await append(id, EMPTY_STREAM, createRegisteredEvent(id, "Taken Over"));
    await waitForName(id, "Taken Over");
    await eventually("the standby runs", () => standby.getStatus().state === "running");
  });

  it("projectors stop at an event that does not fit the schema, and write nothing for later events", async () => {
    // This test needs a separate log, because the event would stop the projectors of all later tests.
    const world = await createEngineWorld();
    const [id, brokenCustomerId] = [randomUUID(), randomUUID()];
    await world.append(`customer-${id}`, createRegisteredEvent(id));
    await world.append(`customer-${brokenCustomerId}`, {
      type: "CustomerRegistered",
      data: { customerId: brokenCustomerId },
    });
    await world.append(`customer-${id}`, createRenamedEvent(id, "Too Late"));
    const role = startProjectors({ ...world, models: readModels, logger });
    try {
      await eventually("failed", () => role.getStatus().state === "failed");
      expect(role.getStatus().lastError?.message)
        .to.contain(`stream customer-${brokenCustomerId}, revision 0`)
        .and.contain("data.clinicId");
      expect((await world.readName(id)) ?? "Ana Kos").to.equal("Ana Kos");
    } finally {
      await role.stop();
      await world.close();
    }
  });

  it("projectors ignore events of other programs", async () => {
    const id = randomUUID();
    const strangerEvent = createRegisteredEvent(randomUUID(), "Stranger") as unknown as {
      type: string;
      data: { x: string };
    };
    await client.appendToStream(`other-${id}`, [
      jsonEvent({ type: "SomethingElse", data: {} }),
      jsonEvent(strangerEvent),
    ]);
    await append(id, EMPTY_STREAM, createRegisteredEvent(id, "After Unknown"));
    startRole();
    await waitForName(id, "After Unknown");
    const { rowCount } = await pool.query(`SELECT FROM ${READ_MODEL_SCHEMA}.customer WHERE full_name = 'Stranger'`);
    expect(rowCount).to.equal(0);
  });

  describe("applying a batch", () => {
    const createRecordedEvent = (event: CatalogEvent, position: bigint): RecordedEvent =>
      ({
        ...event,
        id: randomUUID(),
        stream: "customer-x",
        revision: position,
        position,
        metadata: createStoredMetadata(),
      }) as RecordedEvent;
    const models = readModels.filter(({ table }) => table === customers.table);

    beforeEach(async () => {
      await pool.query(buildReadModelDdl(models, "forced"));
    });
    afterEach(() => pool.query("DROP SCHEMA forced CASCADE"));

    const applyEvents = async (events: RecordedEvent[], fromPosition: bigint, toPosition: bigint) => {
      const connection = await pool.connect();
      try {
        await applyBatch(connection, "forced", models, events, fromPosition, {
          position: toPosition,
          eventId: events.at(-1)!.id,
        });
      } finally {
        connection.release();
      }
    };

    it("if five processes apply a batch concurrently, the batch is applied exactly once", async () => {
      const id = randomUUID();
      const events = [
        createRecordedEvent(createRegisteredEvent(id), 5n),
        createRecordedEvent(createRenamedEvent(id, "Once Only"), 9n),
      ];
      const outcomes = await Promise.allSettled(
        Array.from({ length: 5 }, () => applyEvents(events, BEFORE_FIRST_EVENT, 9n)),
      );
      const rejections = outcomes.filter((outcome) => outcome.status === "rejected");
      expect(rejections).to.have.length(4);
      for (const { reason } of rejections) expect(reason).to.be.instanceOf(LeadershipLostError);
      expect((await readCheckpoint(pool, "forced")).position).to.equal(9n);
      const { rows } = await pool.query("SELECT full_name, rfc3339(created_at) AS at FROM forced.customer");
      expect(rows).to.deep.equal([{ full_name: "Once Only", at: "2030-01-02T03:04:05.678Z" }]);
    });

    it("a batch of another release is refused even if the checkpoint is at the expected position", async () => {
      const otherModels = models.map((model) => ({
        ...model,
        columns: { ...model.columns, extra: "text" as const },
      }));
      const connection = await pool.connect();
      const newCheckpoint = { position: 5n, eventId: randomUUID() };
      const error = await applyBatch(connection, "forced", otherModels, [], BEFORE_FIRST_EVENT, newCheckpoint)
        .catch((error: Error) => error)
        .finally(() => connection.release());
      expect(error).to.be.instanceOf(LeadershipLostError);
      expect((await readCheckpoint(pool, "forced")).position).to.equal(BEFORE_FIRST_EVENT);
    });

    it("a batch with an event that a projector cannot process changes nothing", async () => {
      const id = randomUUID();
      const failingModel = {
        ...models[0]!,
        on: {
          ...models[0]!.on,
          CustomerDetailsChanged: () => {
            throw new Error("cannot");
          },
        },
      };
      const connection = await pool.connect();
      const applyPromise = applyBatch(
        connection,
        "forced",
        [failingModel],
        [createRecordedEvent(createRegisteredEvent(id), 1n), createRecordedEvent(createRenamedEvent(id, "x"), 2n)],
        BEFORE_FIRST_EVENT,
        { position: 2n, eventId: randomUUID() },
      );
      const error = await applyPromise
        .then(
          () => undefined,
          (error: Error) => error,
        )
        .finally(() => connection.release());
      expect(error?.message).to.equal(
        "position 2, stream customer-x, revision 2: read model customer cannot process CustomerDetailsChanged: cannot",
      );
      expect((await readCheckpoint(pool, "forced")).position).to.equal(BEFORE_FIRST_EVENT);
      expect((await pool.query("SELECT 1 FROM forced.customer")).rowCount).to.equal(0);
    });
  });
});
