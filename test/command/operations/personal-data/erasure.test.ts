import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { handle } from "../../../../command/handling/handle.ts";
import { registerAuditor, revokeAuditor } from "../../../../command/operations/auditor-operations.ts";
import { destroyErasedKeys, erasePerson } from "../../../../command/operations/personal-data/erase-person.ts";
import { recordErasure } from "../../../../command/operations/personal-data/record-erasure.ts";
import { animalConsentAggregate } from "../../../../shared/domain/clinic/animal-consent.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import {
  createApplication,
  createClinic,
  createTestOperatorContext,
  type TestClinic,
} from "../../../support/partner.ts";
import { useResource } from "../../../support/resources.ts";
import { runClinic } from "../../cli/terminal.ts";
import { createPersonalDataWorld } from "./personal-data-world.ts";

describe("erasure of personal data", () => {
  const world = useResource(createPersonalDataWorld);
  let clinic: TestClinic;

  beforeEach(async () => {
    clinic = await createClinic(world.log);
  });

  it("an operator cannot erase a customer of another clinic", async () => {
    const otherClinic = await createClinic(world.log);
    const result = await world.eraseCustomer(clinic.customerId, otherClinic.clinicId);
    const line = "clinic: refused: the clinic has no such customer (customer_not_found)";
    expect(result).to.deep.equal({ code: 3, outputLines: [], errorLines: [line] });
    expect(await world.countKeys("customer", clinic.customerId)).to.equal(2);
    expect((await world.log.read(`customer-${clinic.customerId}`)).map(({ type }) => type)).to.deep.equal([
      "CustomerRegistered",
    ]);
  });

  it("an erasure is recorded, destroys the keys, and shows in the read models when the command ends", async () => {
    const { clinicId, customerId, animalId } = clinic;
    await world.requestVisit(clinic, Date.now(), animalId);
    const { code, outputLines } = await world.eraseCustomer(customerId, clinic.clinicId);
    expect(code).to.equal(0);
    expect(outputLines[0]).to.contain(
      `customer erase: done, id ${customerId}, contact, animal, notes, 3 data keys destroyed`,
    );
    expect(outputLines[0]).to.contain("clinic projection scrub");
    expect(await world.readName(customerId)).to.equal("(erased)");
    expect(await world.countKeys("customer", customerId)).to.equal(0);
    const event = (await world.log.read(`customer-${customerId}`)).at(-1);
    expect(event).to.deep.include({
      type: "CustomerDataErased",
      data: { customerId, categories: ["contact", "animal", "notes"], cause: "request", reason: "Request 17" },
    });
    expect(event?.metadata).to.deep.include({ clinicId });
    const again = await world.eraseCustomer(customerId, clinicId, "--json");
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
    expect(await world.countKeys("customer", id)).to.equal(2);
    expect((await world.eraseCustomer(id, clinic.clinicId)).outputLines[0])
      .to.contain("was erased before")
      .and.contain("2 data keys destroyed");
    expect(await world.countKeys("customer", id)).to.equal(0);
  });

  it("a staff member, a portal user, an auditor, an appointment and a ticket can be erased by themselves", async () => {
    const { clinicId, branchId } = clinic;
    const clinicOption = ["--clinic", clinicId];
    const ids = { staff: randomUUID(), user: randomUUID(), ticket: randomUUID(), auditor: randomUUID() };
    const hireArgs = ["--staff", ids.staff, ...clinicOption, "--full-name", "Zoe Lind", "--role", "owner"];
    expect((await world.run("staff", "hire", ...hireArgs)).code).to.equal(0);
    const ticketArgs = ["--ticket", ids.ticket, ...clinicOption, "--branch", branchId, "--ticket-number", "A1"];
    const ticketOptions = "--queue-date 2026-05-04 --arrival-type walk_in --priority normal --notes Bites".split(" ");
    const issueResult = await world.run("ticket", "issue", ...ticketArgs, ...ticketOptions);
    expect(issueResult.errorLines).to.deep.equal([]);
    const appointmentId = await world.requestVisit(clinic, Date.now(), null);
    const auditor = { auditorId: ids.auditor, name: "Ada Berg", clinicIds: null, expiresAt: null };
    await registerAuditor(world.log, auditor, createTestOperatorContext());
    const reason = ["--reason", "Request 18"];
    const eraseAuditor = () => world.run("auditor", "erase", "--auditor", ids.auditor, ...reason);
    expect((await eraseAuditor()).errorLines).to.deep.equal([
      "clinic: refused: the auditor is not revoked; revoke the auditor first (auditor_not_revoked)",
    ]);
    await revokeAuditor(world.log, { auditorId: ids.auditor, reason: null }, createTestOperatorContext());
    const results = [
      await world.run("staff", "erase", "--staff", ids.staff, ...clinicOption, ...reason),
      await world.run("portal-user", "erase", "--user", ids.user, ...reason),
      await eraseAuditor(),
      await world.run("appointment", "erase", "--appointment", appointmentId, ...clinicOption, ...reason),
      await world.run("ticket", "erase", "--ticket", ids.ticket, ...clinicOption, ...reason),
    ];
    expect(results.map(({ code, errorLines }) => [code, errorLines])).to.deep.equal(results.map(() => [0, []]));
    const { rows } = await world.pool.query<{ person_id: string }>(
      `SELECT person_id FROM ${READ_MODEL_SCHEMA}.erasure WHERE person_id = ANY ($1)`,
      [[...Object.values(ids), appointmentId]],
    );
    expect(rows).to.have.length(5);
    expect(await world.countKeys("auditor", ids.auditor)).to.equal(0);
    expect(await world.countKeys("appointment", appointmentId)).to.equal(0);
  });

  it("wrong options and servers are reported in one line", async () => {
    expect((await world.run("customer", "erase", "--customer", clinic.customerId)).errorLines).to.deep.equal([
      "clinic: --clinic is missing; --reason is missing",
    ]);
    const clinicOption = ["--clinic", clinic.clinicId, "--reason", "Asked"];
    const staffArgs = ["staff", "erase", "--staff", randomUUID(), ...clinicOption, "--categories", "notes"];
    const wrongResult = await world.run(...staffArgs);
    expect(wrongResult.code).to.equal(2);
    expect(wrongResult.errorLines).to.have.length(1);
    expect(wrongResult.errorLines[0]).to.match(/^clinic: --categories/);
    const env = { ...world.env, DATABASE_URL: "postgres://127.0.0.1:1/none" };
    const args = ["customer", "erase", "--customer", clinic.customerId, ...clinicOption];
    expect(await runClinic(args, { env })).to.deep.equal({
      code: 4,
      outputLines: [],
      errorLines: [
        "clinic: Postgres is unavailable (connect ECONNREFUSED 127.0.0.1:1); check DATABASE_URL and try again",
      ],
    });
    expect((await world.log.readLast(`customer-${clinic.customerId}`))?.type).to.equal("CustomerRegistered");
  });

  it("an erasure of contact data keeps notes that were recorded after an earlier erasure of notes", async () => {
    const customerId = await world.createCustomer(clinic, 0);
    await world.eraseCustomer(customerId, clinic.clinicId, "--categories", "notes");
    await world.insertKey("customer", customerId, "now()");
    await world.eraseCustomer(customerId, clinic.clinicId, "--categories", "contact");
    const records = await world.dataKeys.listOf({ type: "customer", id: customerId });
    const categories = records.filter(({ destroyedAt }) => destroyedAt === null).map(({ category }) => category);
    expect(categories).to.have.members(["animal", "notes"]);
  });

  it("notes that were recorded between an erasure of notes and one of contact data can be erased later", async () => {
    const customerId = await world.createCustomer(clinic, 0);
    await world.eraseCustomer(customerId, clinic.clinicId, "--categories", "notes");
    await world.insertKey("customer", customerId, "clock_timestamp()");
    await world.eraseCustomer(customerId, clinic.clinicId, "--categories", "contact");
    const { outputLines } = await world.eraseCustomer(customerId, clinic.clinicId, "--categories", "notes");
    expect(outputLines[0]).to.contain("customer erase: done").and.contain("notes, 1 data key destroyed");
    const events = await world.log.read(`customer-${customerId}`);
    expect(events.filter(({ type }) => type === "CustomerDataErased")).to.have.length(3);
  });

  it("no key of a category survives that was erased with the contact data, even after further erasures", async () => {
    const customerId = await world.createCustomer(clinic, 0);
    await world.eraseCustomer(customerId, clinic.clinicId, "--categories", "contact,notes");
    await world.eraseCustomer(customerId, clinic.clinicId, "--categories", "contact,animal");
    await world.insertKey("customer", customerId, "clock_timestamp()");
    const result = await world.run("retention", "apply", "--clinic", clinic.clinicId, "--json");
    expect(JSON.parse(result.outputLines[0]!)).to.include({ keysDestroyedAgain: 1 });
    expect(await world.countKeys("customer", customerId)).to.equal(0);
  });

  it("a wrong clock of the operator's computer does not change which keys an erasure destroys", async () => {
    const { clinicId } = clinic;
    const erasure = { categories: ["notes" as const], cause: "request" as const, reason: "Request 17" };
    for (const skewMs of [-600_000, 600_000]) {
      const id = await world.createCustomer(clinic, 0);
      const operatorContext = createTestOperatorContext(Date.now() + skewMs);
      await erasePerson(world, { type: "customer", id, clinicId }, erasure, operatorContext);
      expect(await world.countKeys("customer", id), `${skewMs} ms`).to.equal(2);
      await world.insertKey("customer", id, "clock_timestamp()");
      await destroyErasedKeys(world.pool, id);
      expect(await world.countKeys("customer", id), `${skewMs} ms: the key of new notes`).to.equal(3);
      // A key from before the erasure was created in the minutes of the skew.
      await world.pool.query(
        "UPDATE data_keys.data_key SET created_at = created_at - interval '5 minutes' WHERE person_id = $1",
        [id],
      );
      await destroyErasedKeys(world.pool, id);
      expect(await world.countKeys("customer", id), `${skewMs} ms: a restored key`).to.equal(2);
    }
  });

  it("an erasure of contact data withdraws the owner's links, also if it was interrupted before", async () => {
    const application = await createApplication(world.log);
    const link = async ({ clinicId, customerId, animalId }: TestClinic) => {
      const ids = { clinicId, customerId, animalId, applicationId: application.applicationId, linkId: randomUUID() };
      const data = { ...ids, covers: "appointments_read" as const, sandboxGeneration: 0 };
      const context = { ...createTestOperatorContext(), clinicId, environment: "production" as const };
      await handle(
        world.log,
        animalConsentAggregate,
        animalId,
        () => [{ type: "AnimalLinked" as const, data }],
        context,
      );
    };
    const readLast = async ({ animalId }: TestClinic) => {
      const event = await world.log.readLast(`animalConsent-${animalId}`);
      return [event?.type, event?.metadata.environment];
    };
    const interrupted = await createClinic(world.log);
    await link(clinic);
    await link(interrupted);
    await world.eraseCustomer(clinic.customerId, clinic.clinicId, "--categories", "notes");
    expect(await readLast(clinic)).to.eql(["AnimalLinked", "production"]);
    await world.eraseCustomer(clinic.customerId, clinic.clinicId);
    expect(await readLast(clinic)).to.eql(["AnimalLinkWithdrawn", "production"]);
    const erasure = { categories: ["contact" as const], cause: "request" as const, reason: "Request 17" };
    const { clinicId, customerId: id } = interrupted;
    await recordErasure.customer(world.log, { clinicId, id, ...erasure }, createTestOperatorContext());
    expect(await readLast(interrupted)).to.eql(["AnimalLinked", "production"]);
    await world.run("retention", "apply", "--clinic", clinicId);
    expect(await readLast(interrupted)).to.eql(["AnimalLinkWithdrawn", "production"]);
  });

  it("an erasure fails while the stream of the customer is quarantined, because the read models then keep the data", async () => {
    const customerId = await world.createCustomer(clinic, 0);
    const stream = `customer-${customerId}`;
    const result = await world.whileQuarantined(stream, () => world.eraseCustomer(customerId, clinic.clinicId));
    expect(result.code).not.to.equal(0);
    expect(result.errorLines[0]).to.contain(`stream ${stream} is quarantined`);
  });
});
