import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import pg from "pg";
import { startAuditService } from "../../../command/audit/start.ts";
import { collectDisclosure } from "../../../command/disclosure/collect-disclosure.ts";
import { registerAuditor } from "../../../command/operations/auditor-operations.ts";
import {
  changeAnimal,
  changeCustomer,
  registerAnimal,
  registerCustomer,
} from "../../../command/operations/customer-operations.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { createTestDataKeys, type TestDataKeys } from "../../support/data-keys.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { requestAudit, useAuditWorld } from "./world.ts";

describe("encrypted events in the audit API", () => {
  let pool: pg.Pool;
  after(() => pool.end());
  const { world, history, auditor } = useAuditWorld();
  let client: EventStoreDBClient;
  let dataKeys: TestDataKeys;
  let clinicId: string;
  let customerId: string;
  let stream: string;

  before(async () => {
    ({ client } = world);
    ({ clinicId } = history);
    pool = new pg.Pool({ connectionString: world.database.urls.command, max: 1 });
    dataKeys = createTestDataKeys(pool);
    customerId = await registerRenamedCustomer();
    stream = `customer-${customerId}`;
  });

  async function registerRenamedCustomer(): Promise<string> {
    const log = createEventLog(client, { dataKeys });
    const id = randomUUID();
    const contact = { fullName: "Ana Kos", phone: null, email: "ana@example.com", city: null };
    await registerCustomer(log, { clinicId, customerId: id, ...contact }, createTestOperatorContext());
    const change = { clinicId, customerId: id, fullName: "Ana Novak" };
    await changeCustomer(log, change, createTestOperatorContext());
    return id;
  }
  /** Deletes the row of a customer's data key, as if it was lost. @returns id of the key */
  async function deleteKey(id: string): Promise<string> {
    const statement = "DELETE FROM data_keys.data_key WHERE person_id = $1 RETURNING id";
    const { rows } = await world.owner.query(statement, [id]);
    return rows[0].id;
  }
  const readNames = async (path: string) =>
    (await auditor.request(path)).lines.map(({ data, erased }) => [data.fullName, erased]);
  const readState = async () => (await auditor.request(`/audit/v1/state?stream=${stream}`)).body.state.details;
  /**
   * Exports all events so far. Waits a millisecond first, because an export omits events of its starting millisecond.
   */
  async function readExport(): Promise<string> {
    const startedAt = Date.now();
    while (Date.now() === startedAt) await nextTurn();
    return (await auditor.request(`/audit/v1/export?clinic=${clinicId}`)).text;
  }
  const getEventLines = (text: string, name: string) =>
    text
      .split("\n")
      .filter((line) => line.includes(`"stream":"${name}"`))
      .map((line) => JSON.parse(line));

  it("lists, states, replays and the command line show personal data, and exports contain the stored form", async () => {
    expect(await readNames(`/audit/v1/events?stream=${stream}`)).to.deep.equal([
      ["Ana Kos", undefined],
      ["Ana Novak", undefined],
    ]);
    expect(await readState()).to.include({ fullName: "Ana Novak", email: "ana@example.com" });
    const { lines: steps } = await auditor.request(`/audit/v1/replay?stream=${stream}`);
    expect(steps[1].changes).to.deep.include({ path: "details.fullName", before: "Ana Kos", after: "Ana Novak" });
    const { output } = await world.run(["as-of", stream, "--json"]);
    expect(JSON.parse(output).state.details.fullName).to.equal("Ana Novak");
    const exportText = await readExport();
    expect(getEventLines(exportText, stream)).to.have.length(2);
    expect(exportText)
      .to.contain('"encrypted":{')
      .and.not.to.match(/Ana|example\.com/);
  });

  it("after an erasure, lists and states show neutral values with a mark, and an export has the same event lines", async () => {
    const erasedId = await registerRenamedCustomer();
    const linesBefore = getEventLines(await readExport(), `customer-${erasedId}`);
    await dataKeys.destroy({ type: "customer", id: erasedId });
    const { lines } = await auditor.request(`/audit/v1/events?stream=customer-${erasedId}`);
    expect(lines.map(({ data, erased }) => [data.fullName, data.email, erased])).to.deep.equal([
      ["(erased)", null, true],
      ["(erased)", null, true],
    ]);
    const { output } = await world.run(["as-of", `customer-${erasedId}`, "--json"]);
    expect(JSON.parse(output).state.details).to.include({ fullName: "(erased)", email: null });
    expect(linesBefore).to.have.length(2);
    expect(getEventLines(await readExport(), `customer-${erasedId}`)).to.deep.equal(linesBefore);
  });

  it("without Postgres, the events and the state of a stream lack only the personal data, and name the problem", async () => {
    const service = await startAuditService({ ...world.env, DATABASE_URL: "postgres://nobody@127.0.0.1:1/clinic" });
    try {
      const request = (path: string) =>
        requestAudit(`${service.url}/audit/v1/${path}`, { Authorization: `Bearer ${auditor.credential}` });
      const problem = "the store of data keys (Postgres) is unavailable";
      const { lines } = await request(`events?stream=${stream}`);
      expect(lines.map((event) => [event.problem, "encrypted" in event.data])).to.deep.equal([
        ...[0, 1].map(() => [problem, true]),
      ]);
      const { body } = await request(`state?stream=${stream}`);
      expect([body.problem, body.last?.revision, body.state?.clinicId]).to.deep.equal([problem, 1, clinicId]);
      const { lines: steps } = await request(`replay?stream=${stream}`);
      expect(steps.map(({ event, state }) => [event.problem, state?.id])).to.deep.equal([
        ...[0, 1].map(() => [problem, customerId]),
      ]);
    } finally {
      await service.stop();
    }
  });

  it("a key that is lost or cannot be used is a problem of its events, and is not shown as an erasure", async () => {
    const [lostId, unusableId, otherId] = [
      await registerRenamedCustomer(),
      await registerRenamedCustomer(),
      await registerRenamedCustomer(),
    ];
    await pool.query("UPDATE data_keys.data_key SET master_key_id = 'former' WHERE person_id = $1", [unusableId]);
    const lostKeyId = await deleteKey(lostId);
    const { lines } = await auditor.request(`/audit/v1/events?clinic=${clinicId}&order=newest`);
    const findEvents = (id: string) => lines.filter(({ stream }: { stream: string }) => stream === `customer-${id}`);
    expect(findEvents(otherId)[0].data.fullName).to.equal("Ana Novak");
    for (const [id, problem] of [
      [lostId, `data key ${lostKeyId} is missing`],
      [unusableId, "master key former, which is not in PERSONAL_DATA_KEYS"],
    ] as const) {
      for (const event of findEvents(id)) {
        expect(event.problem).to.contain(problem);
        expect(event).not.to.have.property("erased");
      }
      expect(findEvents(id)).to.have.length(2);
      const { status, body: state } = await auditor.request(`/audit/v1/state?stream=customer-${id}`);
      expect([status, state.error]).to.deep.equal([409, "stream_not_readable"]);
    }
    const metrics = await (await fetch(`${world.url}/metrics`)).text();
    expect(Number(/^data_keys_missing_total (\d+)$/m.exec(metrics)?.[1])).to.be.at.least(2);
  });

  it("after a key was lost, a change cannot record neutral values, and a disclosure names the lost data", async () => {
    const lostId = await registerRenamedCustomer();
    const ids = { clinicId, customerId: lostId };
    const animalId = randomUUID();
    const animal = { name: "Rex", species: "dog", breed: null, sex: null, birthDate: null, microchip: null };
    const registration = { ...ids, animalId, ...animal, weightKg: null };
    await registerAnimal(createEventLog(client, { dataKeys }), registration, createTestOperatorContext());
    await deleteKey(lostId);
    const newDataKeys = createTestDataKeys(pool);
    const log = createEventLog(client, { dataKeys: newDataKeys });
    const context = createTestOperatorContext();
    const describeError = (error: Error) => `${error.name}: ${error.message}`;
    const change = changeCustomer(log, { ...ids, phone: "+41 41 555 0102" }, context);
    expect(await change.catch(describeError)).to.match(
      /^DataKeyError: CustomerDetailsChanged cannot be recorded, because .* is missing/,
    );
    // All personal fields of this event would have neutral values.
    const animalChange = changeAnimal(log, { clinicId, animalId, birthDate: "2020-05-04" }, context);
    expect(await animalChange.catch(describeError)).to.match(/^DataKeyError: AnimalDetailsChanged cannot be recorded/);
    const dependencies = { log, client, dataKeys: newDataKeys, pool, index: world.index };
    const { limits } = await collectDisclosure(dependencies, ids, createTestOperatorContext());
    expect(limits.at(-1)).to.contain("personal data of 3 changes is unreadable");
    const details = { fullName: "Ana Novak", phone: "+41 41 555 0102", email: "ana@example.com", city: "Zug" };
    await changeCustomer(log, { ...ids, ...details }, createTestOperatorContext());
    expect((await log.readLast(`customer-${lostId}`))?.data).to.deep.equal({ customerId: lostId, ...details });
  });

  async function registerInes(): Promise<{ id: string; headers: Record<string, string> }> {
    const input = { auditorId: randomUUID(), name: "Ines Auditor", clinicIds: [clinicId], expiresAt: null };
    const log = createEventLog(client, { dataKeys });
    const { credential } = await registerAuditor(log, input, createTestOperatorContext());
    return { id: input.auditorId, headers: { Authorization: `Bearer ${credential}` } };
  }

  it("a list of accesses shows the encrypted name of an auditor", async () => {
    const { headers } = await registerInes();
    const { lines } = await requestAudit(`${world.url}/audit/v1/accesses?clinic=${clinicId}`, headers);
    expect(lines.at(-1)).to.include({ action: "accesses", auditorName: "Ines Auditor" });
  });

  it("an auditor whose name cannot be decrypted can sign in, and lists of accesses and disclosures show no name", async () => {
    const [lost, unusable] = [await registerInes(), await registerInes()];
    await deleteKey(lost.id);
    await pool.query("UPDATE data_keys.data_key SET master_key_id = 'former' WHERE person_id = $1", [unusable.id]);
    for (const { id, headers } of [lost, unusable]) {
      const { status, body } = await requestAudit(`${world.url}/audit/v1/me`, headers);
      expect([status, body.auditor?.name]).to.deep.equal([200, id]);
      const { lines } = await requestAudit(`${world.url}/audit/v1/accesses?clinic=${clinicId}`, headers);
      expect(lines.at(-1)).to.deep.include({ action: "accesses", actor: { type: "auditor", id }, auditorName: null });
      await requestAudit(`${world.url}/audit/v1/events?clinic=${clinicId}`, headers);
    }
    const newDataKeys = createTestDataKeys(pool);
    const dependencies = {
      log: createEventLog(client, { dataKeys: newDataKeys }),
      client,
      dataKeys: newDataKeys,
      pool,
      index: world.index,
    };
    const { accesses } = await collectDisclosure(dependencies, { clinicId, customerId }, createTestOperatorContext());
    for (const { id } of [lost, unusable])
      expect(accesses.find(({ actor }) => actor.id === id)?.actor).to.include({ type: "auditor", name: null });
  });
});
