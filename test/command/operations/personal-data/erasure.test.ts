import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { requestAppointment } from "../../../../command/operations/appointment-operations.ts";
import { registerAuditor, revokeAuditor } from "../../../../command/operations/auditor-operations.ts";
import { setRetentionRule } from "../../../../command/operations/clinic-operations.ts";
import { registerAnimal, registerCustomer } from "../../../../command/operations/people-operations.ts";
import { destroyErasedKeys } from "../../../../command/operations/personal-data/destroy-erased-keys.ts";
import { erasePerson } from "../../../../command/operations/personal-data/erase-person.ts";
import { recordErasure } from "../../../../command/operations/personal-data/record-erasure.ts";
import { startProjectors } from "../../../../projection/engine/projectors.ts";
import { readModels } from "../../../../projection/read-models/all.ts";
import type { Role } from "../../../../projection/roles/role.ts";
import type { PersonType } from "../../../../shared/domain/personal-data/person.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { createEngineWorld, type EngineWorld, logger } from "../../../projection/engine-world.ts";
import { createClinic, createTestOperatorContext, type TestClinic } from "../../../support/partner.ts";
import { runClinic } from "../../cli/terminal.ts";

const YEAR_MS = 365 * 86_400_000;

describe("erasure and retention of personal data", function () {
  this.timeout(120_000);
  let world: EngineWorld;
  let projectors: Role;
  let clinic: TestClinic;

  before(async () => {
    world = await createEngineWorld();
    projectors = startProjectors({ ...world, models: readModels, logger });
  });
  after(async () => {
    await projectors.stop();
    await world.close();
  });
  beforeEach(async () => {
    clinic = await createClinic(world.log);
  });

  const run = (...args: string[]) =>
    runClinic(args, { env: { EVENTSTORE_URL: world.eventstoreUrl, DATABASE_URL: world.databaseUrl } });
  const erase = (id: string, clinicId = clinic.clinicId, ...options: string[]) =>
    run("customer", "erase", "--id", id, "--clinic", clinicId, "--reason", "Request 17", ...options);
  const countKeys = async (type: PersonType, id: string) =>
    (await world.dataKeys.listOf({ type, id })).filter(({ destroyedAt }) => destroyedAt === null).length;

  /** Brings back a key for notes that was destroyed, like a restore of an older backup of Postgres. */
  const restoreKey = (type: PersonType, id: string) => insertKey(type, id, "now() - interval '1 day'");
  const insertKey = (type: PersonType, id: string, createdAtSql: string) =>
    world.pool.query(
      `INSERT INTO data_keys.data_key (id, person_type, person_id, category, wrapped_key, master_key_id, created_at)
       VALUES (gen_random_uuid(), $1, $2, 'notes', '\\x00', 'test', ${createdAtSql})`,
      [type, id],
    );

  async function requestVisit(now: number, animalId: string | null, customerClinic = clinic): Promise<string> {
    const { clinicId, branchId } = customerClinic;
    const appointmentId = randomUUID();
    const scheduledAt = new Date(now + 60_000).toISOString();
    const visit = { appointmentId, clinicId, branchId, animalId, scheduledAt, durationMinutes: 30 };
    await requestAppointment(world.log, { ...visit, reason: "Limps", notes: "Bites" }, createTestOperatorContext(now));
    return appointmentId;
  }

  /** Registers a customer with one animal, whose last visit was some years ago. */
  async function createCustomer(yearsSinceVisit: number): Promise<string> {
    const { clinicId } = clinic;
    const [customerId, animalId] = [randomUUID(), randomUUID()];
    const context = createTestOperatorContext(Date.now() - 10 * YEAR_MS);
    const contact = { fullName: "Ben Ek", phone: null, email: null, city: null };
    await registerCustomer(world.log, { customerId, clinicId, ...contact }, context);
    const animal = { name: "Luna", species: "cat", breed: null, sex: null, birthDate: null, microchip: null };
    await registerAnimal(world.log, { animalId, clinicId, customerId, ...animal, weightKg: null }, context);
    await requestVisit(Date.now() - yearsSinceVisit * YEAR_MS, animalId);
    return customerId;
  }

  const readName = (customerId: string) => world.readName(customerId);

  it("an operator cannot erase a customer of another clinic", async () => {
    const otherClinic = await createClinic(world.log);
    const result = await erase(clinic.customerId, otherClinic.clinicId);
    const line = "clinic: refused: the clinic has no such customer (customer_not_found)";
    expect(result).to.deep.equal({ code: 3, outputLines: [], errorLines: [line] });
    expect(await countKeys("customer", clinic.customerId)).to.equal(2);
    expect((await world.log.read(`customer-${clinic.customerId}`)).map(({ type }) => type)).to.deep.equal([
      "CustomerRegistered",
    ]);
  });

  it("an erasure is recorded, destroys the keys, and shows in the read models when the command ends", async () => {
    const { clinicId, customerId, animalId } = clinic;
    await requestVisit(Date.now(), animalId);
    const { code, outputLines } = await erase(customerId);
    expect(code).to.equal(0);
    expect(outputLines[0]).to.contain(
      `customer erase: done, id ${customerId}, contact, animal, notes, 3 data keys destroyed`,
    );
    expect(outputLines[0]).to.contain("clinic projection scrub");
    expect(await readName(customerId)).to.equal("(erased)");
    expect(await countKeys("customer", customerId)).to.equal(0);
    const event = (await world.log.read(`customer-${customerId}`)).at(-1);
    expect(event).to.deep.include({
      type: "CustomerDataErased",
      data: { customerId, categories: ["contact", "animal", "notes"], cause: "request", reason: "Request 17" },
    });
    expect(event?.metadata).to.deep.include({ clinicId });
    const again = await erase(customerId, clinicId, "--json");
    expect(JSON.parse(again.outputLines[0]!)).to.include({
      command: "customer erase",
      changed: false,
      destroyedKeys: 0,
    });
  });

  it("an erasure that was interrupted before the keys were destroyed is completed by repeating it", async () => {
    const { clinicId, customerId: id } = clinic;
    const erasure = { categories: ["contact", "animal", "notes"], cause: "request", reason: "Request 17" } as const;
    const command = { id, clinicId, ...erasure, categories: [...erasure.categories] };
    await recordErasure.customer(world.log, command, createTestOperatorContext());
    expect(await countKeys("customer", id)).to.equal(2);
    expect((await erase(id)).outputLines[0])
      .to.contain("was erased before")
      .and.contain("2 data keys destroyed");
    expect(await countKeys("customer", id)).to.equal(0);
  });

  it("the data of a ticket of a former release, which names no customer, is erased with the customer", async () => {
    const { clinicId, branchId, customerId, animalId } = clinic;
    const ticketId = randomUUID();
    const ticket = {
      ...{ ticketId, clinicId, branchId, animalId, appointmentId: null, visitId: null, ticketNumber: "A1" },
      ...{ queueDate: "2026-05-04", arrivalType: "walk_in", priority: "normal", estimatedWaitMinutes: null },
    };
    await world.append(`queueTicket-${ticketId}`, { type: "QueueTicketIssued", data: { ...ticket, notes: "Bites" } });
    await restoreKey("queueTicket", ticketId);
    await erase(customerId);
    expect(await countKeys("queueTicket", ticketId)).to.equal(0);
    const { rows } = await world.pool.query(
      `SELECT notes FROM ${READ_MODEL_SCHEMA}.queue_ticket WHERE ticket_id = $1`,
      [ticketId],
    );
    expect(rows).to.deep.equal([{ notes: null }]);
  });

  it("a staff member, a portal user, an auditor, an appointment and a ticket can be erased by themselves", async () => {
    const { clinicId, branchId } = clinic;
    const clinicOption = ["--clinic", clinicId];
    const ids = { staff: randomUUID(), user: randomUUID(), ticket: randomUUID(), auditor: randomUUID() };
    const env = { EVENTSTORE_URL: world.eventstoreUrl, DATABASE_URL: world.databaseUrl };
    const hireArgs = ["--id", ids.staff, ...clinicOption, "--full-name", "Zoe Lind", "--role", "owner"];
    expect((await runClinic(["staff", "hire", ...hireArgs], { env })).code).to.equal(0);
    const ticketArgs = ["--id", ids.ticket, ...clinicOption, "--branch", branchId, "--number", "A1"];
    const ticketOptions = [
      "--date",
      "2026-05-04",
      "--arrival-type",
      "walk_in",
      "--priority",
      "normal",
      "--notes",
      "Bites",
    ];
    const issueResult = await runClinic(["ticket", "issue", ...ticketArgs, ...ticketOptions], { env });
    expect(issueResult.errorLines).to.deep.equal([]);
    const appointmentId = await requestVisit(Date.now(), null);
    const auditor = { auditorId: ids.auditor, name: "Ada Berg", clinicIds: null, expiresAt: null };
    await registerAuditor(world.log, auditor, createTestOperatorContext());
    const reason = ["--reason", "Request 18"];
    const eraseAuditor = () => run("auditor", "erase", "--id", ids.auditor, ...reason);
    expect((await eraseAuditor()).errorLines).to.deep.equal([
      "clinic: refused: the auditor has access; revoke it first (auditor_not_revoked)",
    ]);
    await revokeAuditor(world.log, { auditorId: ids.auditor, reason: null }, createTestOperatorContext());
    const results = [
      await run("staff", "erase", "--id", ids.staff, ...clinicOption, ...reason),
      await run("portal-user", "erase", "--id", ids.user, ...reason),
      await eraseAuditor(),
      await run("appointment", "erase", "--id", appointmentId, ...clinicOption, ...reason),
      await run("ticket", "erase", "--id", ids.ticket, ...clinicOption, ...reason),
    ];
    expect(results.map(({ code, errorLines }) => [code, errorLines])).to.deep.equal(results.map(() => [0, []]));
    const { rows } = await world.pool.query<{ person_id: string }>(
      `SELECT person_id FROM ${READ_MODEL_SCHEMA}.erasure WHERE person_id = ANY ($1)`,
      [[...Object.values(ids), appointmentId]],
    );
    expect(rows).to.have.length(5);
    expect(await countKeys("auditor", ids.auditor)).to.equal(0);
    expect(await countKeys("appointment", appointmentId)).to.equal(0);
  });

  it("wrong options and servers are reported in one line", async () => {
    expect((await run("customer", "erase", "--id", clinic.customerId)).errorLines).to.deep.equal([
      "clinic: --clinic is missing; --reason is missing",
    ]);
    const clinicOption = ["--clinic", clinic.clinicId, "--reason", "Asked"];
    const wrongResult = await run("staff", "erase", "--id", randomUUID(), ...clinicOption, "--categories", "notes");
    expect(wrongResult.code).to.equal(2);
    expect(wrongResult.errorLines).to.have.length(1);
    expect(wrongResult.errorLines[0]).to.match(/^clinic: --categories/);
    const env = { EVENTSTORE_URL: world.eventstoreUrl, DATABASE_URL: "postgres://127.0.0.1:1/none" };
    const args = ["customer", "erase", "--id", clinic.customerId, ...clinicOption];
    expect(await runClinic(args, { env })).to.deep.equal({
      code: 4,
      outputLines: [],
      errorLines: ["clinic: Postgres is unavailable; check DATABASE_URL and try again"],
    });
    expect((await world.log.readLast(`customer-${clinic.customerId}`))?.type).to.equal("CustomerRegistered");
  });

  it("retention erases exactly the data whose period has ended, and a second run changes nothing", async () => {
    const { clinicId } = clinic;
    const [oldCustomer, midCustomer, recentCustomer] = [
      await createCustomer(6),
      await createCustomer(3),
      await createCustomer(1),
    ];
    const oldAppointment = await requestVisit(Date.now() - 3 * YEAR_MS, null);
    const recentAppointment = await requestVisit(Date.now() - YEAR_MS, null);
    for (const [category, months] of [
      ["contact", 60],
      ["notes", 24],
    ] as const) {
      await setRetentionRule(world.log, { clinicId, category, months }, createTestOperatorContext());
    }
    const list = await run("retention", "list", "--clinic", clinicId);
    expect(list.outputLines).to.deep.equal(["contact: 60 months\nnotes: 24 months"]);

    const dryRun = await run("retention", "apply", "--clinic", clinicId, "--dry-run", "--json");
    const duePersons = dryRun.outputLines.slice(0, -1).map((line) => JSON.parse(line));
    const summarize = ({ id, categories }: { id: string; categories: string[] }) => [id, ...categories];
    const expected = [
      [oldCustomer, "contact", "notes"],
      [midCustomer, "notes"],
      [oldAppointment, "notes"],
    ];
    expect(duePersons.map(summarize)).to.have.deep.members(expected);
    expect(await countKeys("customer", oldCustomer)).to.equal(3);

    const result = await run("retention", "apply", "--clinic", clinicId);
    expect(result.code).to.equal(0);
    expect(result.outputLines).to.deep.equal([
      "retention apply: data of 2 customers, 1 appointment, 0 queue tickets erased; 4 data keys destroyed",
    ]);
    expect(await readName(oldCustomer)).to.equal("(erased)");
    expect(await readName(midCustomer)).to.equal("Ben Ek");
    const keyCounts = [oldCustomer, midCustomer, recentCustomer].map((id) => countKeys("customer", id));
    expect(await Promise.all(keyCounts)).to.deep.equal([1, 2, 3]);
    expect(await countKeys("appointment", oldAppointment)).to.equal(0);
    expect(await countKeys("appointment", recentAppointment)).to.equal(1);
    const event = (await world.log.read(`customer-${midCustomer}`)).at(-1);
    expect(event?.data).to.deep.include({ cause: "retention", categories: ["notes"] });

    const secondResult = await run("retention", "apply", "--clinic", clinicId);
    expect(secondResult.outputLines[0]).to.contain("0 customers, 0 appointments, 0 queue tickets erased; 0 data keys");
  });

  it("retention destroys the keys of erased persons again after a restore, but not the keys of new data", async () => {
    const { clinicId, customerId, animalId } = clinic;
    await requestVisit(Date.now(), animalId);
    await erase(customerId, clinicId, "--categories", "notes");
    // Another process records new notes. This process still has the destroyed key in its cache.
    await insertKey("customer", customerId, "now()");
    const restoredCustomer = await createCustomer(0);
    await erase(restoredCustomer);
    await restoreKey("customer", restoredCustomer);
    const result = await run("retention", "apply", "--clinic", clinicId, "--json");
    expect(JSON.parse(result.outputLines[0]!)).to.include({ keysDestroyedAgain: 1 });
    expect(await countKeys("customer", restoredCustomer)).to.equal(0);
    expect(await countKeys("customer", customerId)).to.equal(3);
  });

  it("an erasure of contact data keeps notes that were recorded after an earlier erasure of notes", async () => {
    const customerId = await createCustomer(0);
    await erase(customerId, clinic.clinicId, "--categories", "notes");
    await insertKey("customer", customerId, "now()");
    await erase(customerId, clinic.clinicId, "--categories", "contact");
    const records = await world.dataKeys.listOf({ type: "customer", id: customerId });
    const categories = records.filter(({ destroyedAt }) => destroyedAt === null).map(({ category }) => category);
    expect(categories).to.have.members(["animal", "notes"]);
  });

  it("notes that were recorded between an erasure of notes and one of contact data can be erased later", async () => {
    const customerId = await createCustomer(0);
    await erase(customerId, clinic.clinicId, "--categories", "notes");
    await insertKey("customer", customerId, "clock_timestamp()");
    await erase(customerId, clinic.clinicId, "--categories", "contact");
    const { outputLines } = await erase(customerId, clinic.clinicId, "--categories", "notes");
    expect(outputLines[0]).to.contain("customer erase: done").and.contain("notes, 1 data key destroyed");
    const events = await world.log.read(`customer-${customerId}`);
    expect(events.filter(({ type }) => type === "CustomerDataErased")).to.have.length(3);
  });

  it("no key of a category survives that was erased with the contact data, even after further erasures", async () => {
    const customerId = await createCustomer(0);
    await erase(customerId, clinic.clinicId, "--categories", "contact,notes");
    await erase(customerId, clinic.clinicId, "--categories", "contact,animal");
    await insertKey("customer", customerId, "clock_timestamp()");
    const result = await run("retention", "apply", "--clinic", clinic.clinicId, "--json");
    expect(JSON.parse(result.outputLines[0]!)).to.include({ keysDestroyedAgain: 1 });
    expect(await countKeys("customer", customerId)).to.equal(0);
  });

  it("a wrong clock of the operator's computer does not change which keys an erasure destroys", async () => {
    const { clinicId } = clinic;
    const erasure = { categories: ["notes" as const], cause: "request" as const, reason: "Request 17" };
    for (const skewMs of [-600_000, 600_000]) {
      const id = await createCustomer(0);
      const operatorContext = createTestOperatorContext(Date.now() + skewMs);
      await erasePerson(world, { type: "customer", id, clinicId }, erasure, operatorContext);
      expect(await countKeys("customer", id), `${skewMs} ms`).to.equal(2);
      await insertKey("customer", id, "clock_timestamp()");
      await destroyErasedKeys(world.pool, id);
      expect(await countKeys("customer", id), `${skewMs} ms: the key of new notes`).to.equal(3);
      // A key from before the erasure was created in the minutes of the skew.
      await world.pool.query(
        "UPDATE data_keys.data_key SET created_at = created_at - interval '5 minutes' WHERE person_id = $1",
        [id],
      );
      await destroyErasedKeys(world.pool, id);
      expect(await countKeys("customer", id), `${skewMs} ms: a restored key`).to.equal(2);
    }
  });

  it("an interrupted retention run erases nothing more, and exits with 130", async () => {
    const { clinicId } = clinic;
    const customerId = await createCustomer(6);
    await setRetentionRule(world.log, { clinicId, category: "contact", months: 60 }, createTestOperatorContext());
    const env = { EVENTSTORE_URL: world.eventstoreUrl, DATABASE_URL: world.databaseUrl };
    const result = await runClinic(["retention", "apply", "--clinic", clinicId], { env, signal: AbortSignal.abort() });
    expect(result.code).to.equal(130);
    expect(result.outputLines[0]).to.contain("0 customers").and.contain("run the command again to continue");
    expect(await countKeys("customer", customerId)).to.equal(3);
  });

  it("an erasure fails while the stream of the customer is parked, because the read models then keep the data", async () => {
    const customerId = await createCustomer(0);
    const stream = `customer-${customerId}`;
    await world.pool.query(`INSERT INTO ${READ_MODEL_SCHEMA}.passed_over VALUES ($1, 0, 0, 1)`, [stream]);
    const result = await erase(customerId);
    await world.pool.query(`DELETE FROM ${READ_MODEL_SCHEMA}.passed_over`);
    expect(result.code).not.to.equal(0);
    expect(result.errorLines[0]).to.contain(`stream ${stream} is parked`);
  });

  it("retention erases nothing while a stream with visits is parked", async () => {
    const stream = `appointment-${randomUUID()}`;
    await world.pool.query(`INSERT INTO ${READ_MODEL_SCHEMA}.passed_over VALUES ($1, 0, 0, 1)`, [stream]);
    const result = await run("retention", "apply", "--clinic", clinic.clinicId);
    await world.pool.query(`DELETE FROM ${READ_MODEL_SCHEMA}.passed_over`);
    expect(result.code).to.equal(3);
    expect(result.errorLines[0]).to.contain(`stream ${stream} is parked`);
  });
});
