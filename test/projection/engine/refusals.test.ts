import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import { buildReadModelDdl } from "../../../projection/engine/ddl.ts";
import { runProjection } from "../../../projection/engine/projection.ts";
import type { ProjectionProgress } from "../../../projection/engine/projection-options.ts";
import type { AnyReadModel, Row } from "../../../projection/engine/read-model.ts";
import { ensureReadModels } from "../../../projection/prepare-database.ts";
import { QUARANTINE_STREAM, readConfirmedTypes } from "../../../projection/quarantine/confirmed-types.ts";
import { readQuarantinedStreams } from "../../../projection/quarantine/quarantined-streams.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { customers } from "../../../projection/read-models/customers.ts";
import { OTHER_RELEASE, type Role } from "../../../projection/roles/role.ts";
import { EventSchemaError } from "../../../shared/domain/events/stored-event.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { captureLogs } from "../../support/captured-logs.ts";
import { createTestPool } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createEngineWorld,
  createRegisteredEvent,
  createRenamedEvent,
  type EngineWorld,
  logger,
} from "../engine-world.ts";

const SCHEMA = "refusing";

/** Read model whose name column is numeric. Postgres therefore refuses valid events. */
const numericNameModels: AnyReadModel[] = readModels
  .filter(({ table }) => table === customers.table)
  .map((model) => ({ ...model, columns: { ...model.columns, full_name: "numeric" as const }, indexes: [] }));

describe("read models of another release in the same schema", () => {
  it("the projectors of the other release stand by until its `rebuild`, and then those of this release", async () => {
    const world = await createEngineWorld();
    const logs = captureLogs();
    const id = randomUUID();
    await world.append(`customer-${id}`, createRegisteredEvent(id, "Ana Kos"));
    const otherModels = readModels.map((model) =>
      model.table === customers.table ? { ...model, indexes: [...model.indexes, "full_name"] } : model,
    );
    await ensureReadModels(world.pool, otherModels);
    const startRole = (models: readonly AnyReadModel[]) =>
      world.startProjectors({ models, logger: createLogger("test", "warn") });
    const waitForStandby = async (role: Role) => {
      await eventually("it stands by", () => role.getStatus().detail === OTHER_RELEASE);
      expect(role.getStatus()).to.deep.include({ state: "standby", isLeader: false });
    };
    const waitForLead = (role: Role) => eventually("it leads", () => role.getStatus().state === "running");
    const otherRole = startRole(otherModels);
    await waitForStandby(otherRole);
    await eventually("its log", () => logs.text().includes("The read models belong to another release."));
    expect(await world.readName(id)).to.equal(undefined);
    const refusal = await world.verify({ models: otherModels }).catch((error: Error) => error);
    expect((refusal as Error).message).to.match(/^the read models belong to another release: /);

    const role = startRole(readModels);
    await waitForLead(role);
    await world.rebuild({ models: otherModels });
    await waitForLead(otherRole);
    await waitForStandby(role);
    expect(await world.readName(id)).to.equal("Ana Kos");
    // The release that no longer owns the read models does not take over, even if the other release does not run.
    await otherRole.stop();
    const lateRole = startRole(readModels);
    await waitForStandby(lateRole);
    await world.append(`customer-${id}`, createRenamedEvent(id, "Ana Rak"));
    expect((await world.runCommand("status")).stdout).to.contain(
      "The read models belong to another release. Run that release, or run `rebuild` with this release.",
    );
    expect(await world.readName(id)).to.equal("Ana Kos");

    await world.rebuild();
    await eventually("one of them leads", () => role.getStatus().isLeader || lateRole.getStatus().isLeader);
    await eventually("the event", async () => (await world.readName(id)) === "Ana Rak");
  });
});

describe("a single event that takes longer than the time limit of a statement", () => {
  let world: EngineWorld;
  let hastyPool: pg.Pool;
  const ids = Array.from({ length: 9 }, () => randomUUID());
  const slowId = ids[4]!;

  beforeEach(async () => {
    world = await createEngineWorld();
    hastyPool = createTestPool(world.databaseUrl, { statementTimeoutMs: 300 });
    for (const id of ids) await world.append(`customer-${id}`, createRegisteredEvent(id, "Ana Kos"));
    await world.pool.query(
      `CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(5); RETURN NEW; END $$;
       CREATE TRIGGER delay BEFORE INSERT ON ${READ_MODEL_SCHEMA}.customer FOR EACH ROW
         WHEN (NEW.customer_id = '${slowId}') EXECUTE FUNCTION delay()`,
    );
  });
  afterEach(async () => {
    await world.stopRoles();
  });

  const readQuarantined = () => readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA);

  it("its stream is quarantined, and later events are written", async () => {
    world.startProjectors({ pool: hastyPool });
    await eventually("the last row", () => world.readName(ids.at(-1)!));
    const quarantinedStreams = await readQuarantined();
    expect([...quarantinedStreams.keys()]).to.deep.equal([`customer-${slowId}`]);
    expect(quarantinedStreams.get(`customer-${slowId}`)?.cause).to.contain("longer than the time limit");
  });

  const waitForTimeouts = async (role: Role, count: number) => {
    const times = new Set<number | undefined>();
    await eventually(`${count} failed attempts`, () => times.add(role.getStatus().lastError?.at).size > count);
  };

  it("if the database is slow for all transactions, the projectors wait", async () => {
    await world.pool.query(
      `CREATE TRIGGER delay BEFORE UPDATE ON ${READ_MODEL_SCHEMA}.checkpoint FOR EACH ROW EXECUTE FUNCTION delay()`,
    );
    await waitForTimeouts(world.startProjectors({ pool: hastyPool }), 4);
    expect((await readQuarantined()).size).to.equal(0);
    await world.pool.query(
      `DROP TRIGGER delay ON ${READ_MODEL_SCHEMA}.checkpoint; DROP TRIGGER delay ON ${READ_MODEL_SCHEMA}.customer`,
    );
    await eventually("the last row", () => world.readName(ids.at(-1)!));
    expect((await readQuarantined()).size).to.equal(0);
  });
});

describe("an event that does not fit its schema", () => {
  it("projectors quarantine the stream of an invalid event, and `verify` compares all other rows", async () => {
    const world = await createEngineWorld();
    const [brokenCustomerId, otherCustomerId] = [randomUUID(), randomUUID()];
    await world.append(`customer-${brokenCustomerId}`, createRegisteredEvent(brokenCustomerId, "Ana Kos"));
    await world.append(`customer-${otherCustomerId}`, createRegisteredEvent(otherCustomerId, "Bor Rak"));
    await world.append(`customer-${brokenCustomerId}`, { type: "CustomerDetailsChanged", data: { fullName: 7 } });
    const position = await world.append(`customer-${otherCustomerId}`, createRenamedEvent(otherCustomerId, "Bor Kos"));
    world.startProjectors();
    await eventually("the later event", async () => (await world.readName(otherCustomerId)) === "Bor Kos");
    const { code, stdout } = await world.runCommand("verify");
    expect(code).to.equal(0);
    expect(stdout)
      .to.match(new RegExp(`^quarantined customer-${brokenCustomerId} from revision 1 on: .*data.fullName`))
      .and.contain(`2 rows compared at position ${position}, not counting 1 quarantined stream: 0 differ\n`);
    await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.customer SET full_name = 'Eve' WHERE customer_id = $1`, [
      otherCustomerId,
    ]);
    expect((await world.runCommand("verify")).stdout).to.contain(`customer ${otherCustomerId}: full_name`);
  });
});

describe("an event of a type that only a newer release knows", () => {
  it("projectors quarantine its stream, a command that reads it fails, and later decisions of operators are effective", async () => {
    const world = await createEngineWorld();
    const stream = `customer-${randomUUID()}`;
    const REASON = "is unknown to this release; use the newer release that wrote it";
    await world.append(stream, { type: "CustomerPraised", data: {} });
    await world.append(QUARANTINE_STREAM, { type: "StreamForgiven", data: {} });
    const data = { eventType: "CustomerPraised", reason: "import" };
    const position = await world.append(QUARANTINE_STREAM, { type: "EventTypeConfirmed", data });
    world.startProjectors();
    await world.waitFor(position);
    const quarantinedStreams = await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA);
    expect([...quarantinedStreams].map(([name, { cause }]) => [name, cause])).to.deep.equal([
      [stream, `CustomerPraised ${REASON}`],
      [QUARANTINE_STREAM, `StreamForgiven ${REASON}`],
    ]);
    expect([...(await readConfirmedTypes(world.client))]).to.deep.equal([["CustomerPraised", position]]);
    const error = await world.log.read(stream).catch((error: Error) => error);
    expect(error).to.be.instanceOf(EventSchemaError).with.property("message", `CustomerPraised ${REASON}`);
  });
});

describe("an event in a stream whose name the service cannot have written", () => {
  it("projectors ignore the event, and process all others", async () => {
    const world = await createEngineWorld();
    const customerId = randomUUID();
    await world.append(`customer-${randomBytes(2_000).toString("hex")}`, { type: "Unknown", data: {} });
    await world.append(`customer-${randomUUID()}`, { type: "Unknown".repeat(500), data: { text: "\0" } });
    await world.append(`customer-${customerId}`, createRegisteredEvent(customerId, "Ana Kos"));
    world.startProjectors();
    await eventually("the customer", async () => (await world.readName(customerId)) === "Ana Kos");
    expect((await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA)).size).to.equal(1);
  });
});

describe("a projection with a database that refuses statements", () => {
  let world: EngineWorld;

  beforeEach(async () => {
    world = await createEngineWorld();
    await world.pool.query(buildReadModelDdl(numericNameModels, SCHEMA));
  });

  const runUntilError = async (
    signal: AbortSignal,
    onProgress: (progress: ProjectionProgress) => unknown = () => undefined,
    pool = world.pool,
    models = numericNameModels,
  ) => {
    const options = { ...world, pool, schema: SCHEMA, models, logger, onProgress };
    return runProjection(options, signal).then(
      () => undefined,
      (error: Error) => error,
    );
  };
  const readNames = async () =>
    (await world.pool.query<{ full_name: number }>(`SELECT full_name FROM ${SCHEMA}.customer ORDER BY 1`)).rows.map(
      ({ full_name }) => full_name,
    );

  it("if Postgres refuses a value of one event in a batch, only its stream is quarantined, and the value is not recorded", async () => {
    const ids = Array.from({ length: 9 }, () => randomUUID());
    const badId = ids[4]!;
    for (const [index, id] of ids.entries()) {
      await world.append(`customer-${id}`, createRegisteredEvent(id, `${index}`));
      await world.append("elsewhere-1", { type: "NothingOfOurs", data: {} });
    }
    const badPosition = await world.append(`customer-${badId}`, createRenamedEvent(badId, "Ana Kos"));
    await world.append(`customer-${badId}`, createRenamedEvent(badId, "Ana Novak"));
    const lastPosition = await world.append(`customer-${ids[8]}`, createRenamedEvent(ids[8]!, "80"));
    const stopController = new AbortController();
    await runUntilError(stopController.signal, ({ hasCaughtUp }) => hasCaughtUp && stopController.abort());
    expect(await readNames()).to.deep.equal([0, 1, 2, 3, 4, 5, 6, 7, 80]);
    expect((await readCheckpoint(world.pool, SCHEMA)).position).to.equal(lastPosition);
    const quarantinedStreams = await readQuarantinedStreams(world.pool, SCHEMA);
    expect([...quarantinedStreams.keys()]).to.deep.equal([`customer-${badId}`]);
    expect(quarantinedStreams.get(`customer-${badId}`)).to.deep.include({
      revision: 1n,
      position: badPosition,
      cause: "the database refused a value of the event (SQLSTATE 22P02)",
      events: 2n,
    });
  });

  it("if a row cannot be rendered, only the stream of the event is quarantined", async () => {
    const [badId, otherId] = [randomUUID(), randomUUID()];
    await world.append(`customer-${badId}`, createRegisteredEvent(badId, "13"));
    await world.append(`customer-${otherId}`, createRegisteredEvent(otherId, "2"));
    const stopController = new AbortController();
    const models = numericNameModels.map((model) => ({
      ...model,
      renderedColumns: {
        ...model.renderedColumns,
        portal_json: (row: Row) => {
          if (row.full_name === "13") throw new Error("unlucky");
          return model.renderedColumns?.portal_json?.(row) ?? {};
        },
      },
    }));
    const onProgress = ({ hasCaughtUp }: ProjectionProgress) => hasCaughtUp && stopController.abort();
    expect(await runUntilError(stopController.signal, onProgress, world.pool, models)).to.equal(undefined);
    expect(await readNames()).to.deep.equal([2]);
    const quarantinedStreams = await readQuarantinedStreams(world.pool, SCHEMA);
    expect([...quarantinedStreams.keys()]).to.deep.equal([`customer-${badId}`]);
    expect(quarantinedStreams.get(`customer-${badId}`)?.cause).to.equal("read model customer cannot write a row");
  });

  it("the projection fails without a retry if the database refuses a statement permanently", async () => {
    const id = randomUUID();
    await world.append(`customer-${id}`, createRegisteredEvent(id, "1"));
    await world.pool.query(`DROP TABLE ${SCHEMA}.customer`);
    const error = await runUntilError(new AbortController().signal);
    expect(error?.message).to.equal(`relation "${SCHEMA}.customer" does not exist`);
  });

  it("during a temporary failure of Postgres, the projection waits and reports the failure, and then continues", async () => {
    const id = randomUUID();
    await world.append(`customer-${id}`, createRegisteredEvent(id, "1"));
    const blocker = await world.pool.connect();
    await blocker.query("BEGIN");
    await blocker.query(`LOCK TABLE ${SCHEMA}.customer IN ACCESS EXCLUSIVE MODE`);
    // If a statement exceeds the time limit, Postgres cancels it with SQLSTATE 57014.
    const hastyOptions = { url: world.databaseUrl, applicationName: "test", size: 2, statementTimeoutMs: 100 };
    const pool = createPool({ ...hastyOptions, logger });
    const stopController = new AbortController();
    let lastProgress: ProjectionProgress | undefined;
    const onProgress = (progress: ProjectionProgress) => {
      lastProgress = { ...progress };
    };
    const runPromise = runUntilError(stopController.signal, onProgress, pool);
    await eventually("it waits", () => lastProgress?.waitsFor === "the database");
    expect(lastProgress?.lastError).to.be.instanceOf(Error);
    await blocker.query("ROLLBACK");
    blocker.release();
    await eventually("it goes on", async () => (await readNames()).length === 1);
    await eventually("it waits no longer", () => lastProgress?.waitsFor === null);
    stopController.abort();
    expect(await runPromise).to.equal(undefined);
    await pool.end();
  });
});
