import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import { applyBatch } from "../../../projection/engine/apply-batch.ts";
import { buildReadModelDdl } from "../../../projection/engine/ddl.ts";
import type { AnyReadModel } from "../../../projection/engine/read-model.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { customers } from "../../../projection/read-models/customers.ts";
import { LeadershipLostError } from "../../../projection/roles/role.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { useResource } from "../../support/resources.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import { createEngineWorld, createRegisteredEvent, createRenamedEvent } from "../engine-world.ts";

describe("projectors", () => {
  const world = useResource(createEngineWorld);

  // The tests share the log and the database. Each test sees the events of all earlier tests.
  afterEach(() => world.stopRoles());

  const waitForName = (id: string, fullName: string) =>
    eventually(`${fullName} in the read model`, async () => (await world.readName(id)) === fullName);

  it("projectors process stored events first and then live events", async () => {
    const [earlyId, lateId] = [randomUUID(), randomUUID()];
    const earlyEvents = [createRegisteredEvent(earlyId, "Ana Kos"), createRenamedEvent(earlyId, "Ana Novak")];
    await world.append(`customer-${earlyId}`, ...earlyEvents);
    const role = world.startProjectors();
    await waitForName(earlyId, "Ana Novak");
    const position = await world.append(`customer-${lateId}`, createRegisteredEvent(lateId, "Live Lee"));
    await waitForName(lateId, "Live Lee");
    expect((await readCheckpoint(world.pool, READ_MODEL_SCHEMA)).position).to.equal(position);
    await eventually("running", () => role.getStatus().state === "running");
  });

  it("projectors ignore events of other programs", async () => {
    const [id, strangerId] = [randomUUID(), randomUUID()];
    const foreignEvents = [{ type: "SomethingElse", data: {} }, createRegisteredEvent(strangerId, "Stranger")];
    await world.append(`other-${id}`, ...foreignEvents);
    await world.append(`customer-${id}`, createRegisteredEvent(id, "After Unknown"));
    world.startProjectors();
    await waitForName(id, "After Unknown");
    expect(await world.readName(strangerId)).to.equal(undefined);
  });

  it("projectors continue from the checkpoint after a stop, and process no event twice", async () => {
    const id = randomUUID();
    await world.append(`customer-${id}`, createRegisteredEvent(id, "Ana Kos"));
    const firstProjectors = world.startProjectors();
    await waitForName(id, "Ana Kos");
    await firstProjectors.stop();
    // If the first event was processed again, the row would have its name.
    await world.pool.query(`DELETE FROM ${READ_MODEL_SCHEMA}.customer WHERE customer_id = $1`, [id]);
    const nextId = randomUUID();
    await world.append(`customer-${nextId}`, createRegisteredEvent(nextId, "Second Run"));
    world.startProjectors();
    await waitForName(nextId, "Second Run");
    expect(await world.readName(id)).to.equal(undefined);
  });

  describe("applying a batch", () => {
    const createRecordedEvent = (event: CatalogEvent, position: bigint): RecordedEvent =>
      ({
        ...event,
        id: randomUUID(),
        stream: "customer-x",
        revision: position,
        position,
        metadata: createStoredMetadata(event),
      }) as RecordedEvent;
    const models = readModels.filter(({ table }) => table === customers.table);

    beforeEach(async () => {
      await world.pool.query(buildReadModelDdl(models, "forced"));
    });
    afterEach(() => world.pool.query("DROP SCHEMA forced CASCADE"));

    const applyEvents = async (events: RecordedEvent[], toPosition: bigint, batchModels: AnyReadModel[] = models) => {
      const client = await world.pool.connect();
      const newCheckpoint = { position: toPosition, eventId: randomUUID() };
      try {
        const tables = { client, schema: "forced", models: batchModels };
        await applyBatch(tables, { events, fromPosition: BEFORE_FIRST_EVENT, newCheckpoint });
        return undefined;
      } catch (error) {
        return error as Error;
      } finally {
        client.release();
      }
    };
    const readPosition = async () => (await readCheckpoint(world.pool, "forced")).position;

    it("if five processes apply a batch concurrently, the batch is applied exactly once", async () => {
      const id = randomUUID();
      const events = [
        createRecordedEvent(createRegisteredEvent(id, "Ana Kos"), 5n),
        createRecordedEvent(createRenamedEvent(id, "Once Only"), 9n),
      ];
      const results = await Promise.all(Array.from({ length: 5 }, () => applyEvents(events, 9n)));
      const errors = results.filter((error) => error !== undefined);
      expect(errors).to.have.length(4);
      for (const error of errors) expect(error).to.be.instanceOf(LeadershipLostError);
      expect(await readPosition()).to.equal(9n);
      const { rows } = await world.pool.query("SELECT full_name, rfc3339(created_at) AS at FROM forced.customer");
      expect(rows).to.deep.equal([{ full_name: "Once Only", at: "2030-01-02T03:04:05.678Z" }]);
    });

    it("a batch of another release is refused even if the checkpoint is at the expected position", async () => {
      const otherModels = models.map((model) => ({ ...model, columns: { ...model.columns, extra: "text" as const } }));
      expect(await applyEvents([], 5n, otherModels)).to.be.instanceOf(LeadershipLostError);
      expect(await readPosition()).to.equal(BEFORE_FIRST_EVENT);
    });

    it("a batch with an event that a projector cannot process changes nothing", async () => {
      const id = randomUUID();
      const CustomerDetailsChanged = () => {
        throw new Error("cannot");
      };
      const failingModels = models.map((model) => ({ ...model, on: { ...model.on, CustomerDetailsChanged } }));
      const events = [
        createRecordedEvent(createRegisteredEvent(id, "Ana Kos"), 1n),
        createRecordedEvent(createRenamedEvent(id, "x"), 2n),
      ];
      expect((await applyEvents(events, 2n, failingModels))?.message).to.equal(
        "position 2, stream customer-x, revision 2: read model customer cannot process CustomerDetailsChanged: cannot",
      );
      expect(await readPosition()).to.equal(BEFORE_FIRST_EVENT);
      expect((await world.pool.query("SELECT 1 FROM forced.customer")).rowCount).to.equal(0);
    });
  });
});
