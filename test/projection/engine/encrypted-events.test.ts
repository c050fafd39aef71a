import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { requestAppointment } from "../../../command/operations/appointment-operations.ts";
import { recordAndDestroy } from "../../../command/operations/personal-data/erase-person.ts";
import { runProjection } from "../../../projection/engine/projection.ts";
import { QUARANTINE_STREAM } from "../../../projection/quarantine/confirmed-types.ts";
import { readQuarantinedStreams } from "../../../projection/quarantine/quarantined-streams.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { createEventLog, EMPTY_STREAM } from "../../../shared/eventstore/log.ts";
import { cacheDataKeys, createUncachedDataKeys } from "../../../shared/personal-data/create-data-keys.ts";
import { createDataKeyStore } from "../../../shared/personal-data/data-key-store.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { createMasterKeys } from "../../../shared/personal-data/master-keys.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createTestPool } from "../../support/connections.ts";
import { createTestDataKeys, PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import { createClinic, createTestOperatorContext } from "../../support/partner.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import {
  createEngineWorld,
  createRegisteredEvent,
  createRenamedEvent,
  type EngineWorld,
  logger,
} from "../engine-world.ts";

describe("the projection of encrypted events", () => {
  let world: EngineWorld;

  const openWorld = async () => {
    world = await createEngineWorld();
  };

  async function registerCustomer(fullName: string): Promise<string> {
    const id = randomUUID();
    const event = createRegisteredEvent(id, fullName);
    await world.log.append(`customer-${id}`, EMPTY_STREAM, [
      { id: randomUUID(), event, metadata: createStoredMetadata(event), person: { type: "customer", id } },
    ]);
    return id;
  }
  const keyConfig = readConfig(["PERSONAL_DATA_KEYS"], { PERSONAL_DATA_KEYS });
  const waitForName = (id: string, name: string) =>
    eventually(`${name} in the read model`, async () => (await world.readName(id)) === name);

  describe("in a log that projectors can process", () => {
    // The tests share the log and the database. Each test sees the events of all earlier tests.
    before(openWorld);
    afterEach(() => world.stopRoles());

    it("a batch needs one query for the keys of all its persons", async () => {
      for (let count = 0; count < 20; count += 1) await registerCustomer(`Customer ${count}`);
      const findSizes: number[] = [];
      const countingKeys: DataKeys = {
        ...world.dataKeys,
        find: (ids) => {
          findSizes.push(ids.length);
          return world.dataKeys.find(ids);
        },
      };
      await world.rebuild({ dataKeys: countingKeys });
      const { rows } = await world.pool.query(`SELECT full_name FROM ${READ_MODEL_SCHEMA}.customer`);
      expect(rows).to.have.length(20);
      expect(findSizes.reduce((sum, size) => sum + size)).to.equal(20);
      expect(findSizes).to.have.length.below(5);
    });

    it("read models contain the personal data of plain and encrypted events", async () => {
      const plainId = randomUUID();
      await world.append(`customer-${plainId}`, createRegisteredEvent(plainId, "Plain Petra"));
      const encryptedId = await registerCustomer("Ana Kos");
      world.startProjectors();
      await waitForName(plainId, "Plain Petra");
      await waitForName(encryptedId, "Ana Kos");
    });

    it("projectors process encrypted events with a pool of one connection", async () => {
      const id = await registerCustomer("Ana Kos");
      const pool = createTestPool(world.databaseUrl, { size: 1, statementTimeoutMs: 5_000 });
      const dataKeys = createUncachedDataKeys(pool, keyConfig);
      world.startProjectors({ pool, dataKeys });
      await waitForName(id, "Ana Kos");
      await world.stopRoles();
    });

    it("projectors notice at once that another process has destroyed a key, and write neutral values", async () => {
      const [erasedId, otherId] = [await registerCustomer("Ana Kos"), await registerCustomer("Bor Zupan")];
      const keysOfProjectors = createUncachedDataKeys(world.pool, keyConfig);
      await world.rebuild({ dataKeys: keysOfProjectors });
      expect(await world.readName(erasedId)).to.equal("Ana Kos");
      await world.dataKeys.destroy({ type: "customer", id: erasedId });
      await world.rebuild({ dataKeys: keysOfProjectors });
      expect([await world.readName(erasedId), await world.readName(otherId)]).to.deep.equal(["(erased)", "Bor Zupan"]);
    });

    it("text that a process records with a key that was just destroyed is not shown, as after a rebuild", async () => {
      // With a stopped clock, neither the writer nor the projectors notice the destruction.
      const dataKeys = cacheDataKeys(createUncachedDataKeys(world.pool, keyConfig), () => 0);
      const log = createEventLog(world.client, { dataKeys });
      const { clinicId, branchId, animalId, customerId: id } = await createClinic(log);
      world.startProjectors({ dataKeys });
      const requestVisit = async (notes: string) => {
        const appointmentId = randomUUID();
        const scheduledAt = new Date(Date.now() + 86_400_000).toISOString();
        const visit = { appointmentId, clinicId, branchId, animalId, scheduledAt, durationMinutes: 30, reason: null };
        await requestAppointment(log, { ...visit, notes }, createTestOperatorContext());
        return eventually("the appointment", async () => {
          const sql = `SELECT notes FROM ${READ_MODEL_SCHEMA}.appointment WHERE appointment_id = $1`;
          return (await world.pool.query<{ notes: string | null }>(sql, [appointmentId])).rows[0];
        });
      };
      expect(await requestVisit("Limps")).to.deep.equal({ notes: "Limps" });
      const erasure = { categories: ["notes" as const], cause: "request" as const, reason: "Request 17" };
      const stores = { log, pool: world.pool };
      await recordAndDestroy(stores, { type: "customer", id, clinicId }, erasure, createTestOperatorContext());
      expect(await requestVisit("Bites")).to.deep.equal({ notes: null });
      expect(await world.verify()).to.include({ differenceCount: 0 });
    });

    it("a key that was lost gives neutral values and is reported, and projectors continue", async () => {
      const lostId = await registerCustomer("Ana Kos");
      const reports: (readonly string[])[] = [];
      const dataKeys = createTestDataKeys(world.pool, (ids) => reports.push(ids));
      const { rows } = await world.pool.query("DELETE FROM data_keys.data_key WHERE person_id = $1 RETURNING id", [
        lostId,
      ]);
      world.startProjectors({ dataKeys });
      await waitForName(await registerCustomer("Bor Zupan"), "Bor Zupan");
      expect(await world.readName(lostId)).to.equal("(erased)");
      expect(reports).to.deep.equal([[rows[0].id]]);
    });

    it("with another master key, projectors stop with one line instead of showing neutral values", async () => {
      const id = await registerCustomer("Ana Kos");
      const otherMasterKeys = createMasterKeys({ current: "b", keys: { b: Buffer.alloc(32, 1).toString("base64") } });
      const options = {
        ...world,
        models: readModels,
        logger,
        schema: READ_MODEL_SCHEMA,
        onProgress: () => undefined,
      };
      const error = await runProjection(
        { ...options, dataKeys: createDataKeyStore(world.pool, otherMasterKeys) },
        new AbortController().signal,
      ).catch((error: Error) => error);
      expect(error?.message).to.contain("master key test, which is not in PERSONAL_DATA_KEYS");
      expect(await world.readName(id)).to.equal(undefined);
    });

    it("a renamed customer needs no further key", async () => {
      const id = await registerCustomer("Ana Kos");
      const event = createRenamedEvent(id, "Ana Novak");
      await world.log.append(`customer-${id}`, 0n, [
        { id: randomUUID(), event, metadata: createStoredMetadata(event), person: { type: "customer", id } },
      ]);
      await world.rebuild();
      expect(await world.readName(id)).to.equal("Ana Novak");
      expect(await world.dataKeys.listOf({ type: "customer", id })).to.have.length(1);
    });
  });

  describe("with an event that cannot be decrypted", () => {
    beforeEach(openWorld);

    it("projectors quarantine the stream of an event whose ciphertext was changed", async () => {
      const id = await registerCustomer("Ana Kos");
      const keys = await world.dataKeys.getOrCreate([{ person: { type: "customer", id }, category: "contact" }]);
      const encrypted = { keyId: keys[0]?.id, ciphertext: Buffer.alloc(60).toString("base64") };
      await world.append(`customer-${id}`, { type: "CustomerDetailsChanged", data: { customerId: id, encrypted } });
      const otherId = await registerCustomer("Bor Zupan");
      world.startProjectors();
      await waitForName(otherId, "Bor Zupan");
      const quarantinedStream = (await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA)).get(`customer-${id}`);
      expect(quarantinedStream?.cause).to.match(/cannot be decrypted/);
      expect(await world.readName(id)).to.equal("Ana Kos");
    });

    it("a key of an unknown master key stops projectors at its first event, with one line that names the event", async () => {
      const earlierId = await registerCustomer("Bor Zupan");
      const id = await registerCustomer("Ana Kos");
      await world.pool.query("UPDATE data_keys.data_key SET master_key_id = 'former' WHERE person_id = $1", [id]);
      const role = world.startProjectors({ dataKeys: createTestDataKeys(world.pool) });
      await eventually("failed", () => role.getStatus().state === "failed");
      expect(role.getStatus().lastError?.message).to.match(
        new RegExp(
          `^position \\d+, stream customer-${id}, revision 0: data key .*former, which is not in .*; add this`,
        ),
      );
      expect([await world.readName(earlierId), await world.readName(id)]).to.deep.equal(["Bor Zupan", undefined]);
      const data = { eventType: "CustomerRegistered", reason: "The key is damaged" };
      await world.append(QUARANTINE_STREAM, { type: "EventTypeConfirmed", data });
      await eventually("running", () => role.getStatus().state === "running");
      expect((await readQuarantinedStreams(world.pool, READ_MODEL_SCHEMA)).size).to.equal(1);
    });
  });
});
