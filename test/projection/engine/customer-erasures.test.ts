import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Erasure } from "../../../shared/domain/personal-data/erasure.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { animalRegistered, appointmentRequested, customerRegistered } from "../../support/clinics.ts";
import { createReadModelDatabase, type GivenEvent } from "../../support/read-models.ts";
import { useResource } from "../../support/resources.ts";

/** Text in personal data. After an erasure, no row may contain it. */
const SECRET = "Zebra";

function createErasedEvent(customerId: string, categories: Erasure["categories"]): GivenEvent {
  return { type: "CustomerDataErased", data: { customerId, categories, cause: "request", reason: "Request 17" } };
}

function createCustomer(clinicId: string) {
  const [customerId, animalId, otherAnimalId] = [randomUUID(), randomUUID(), randomUUID()];
  const appointment = appointmentRequested(clinicId, randomUUID(), "2026-03-12T10:00:00Z", {
    animalId,
    customerId,
    reason: `${SECRET} limps`,
    notes: `${SECRET} bites`,
  });
  const { appointmentId } = appointment.data as { appointmentId: string };
  const createTicket = (subject: { animalId?: string; appointmentId?: string; customerId?: string }): GivenEvent => ({
    type: "QueueTicketIssued",
    data: {
      ticketId: randomUUID(),
      clinicId,
      branchId: randomUUID(),
      appointmentId: null,
      visitId: null,
      animalId: null,
      customerId: null,
      ticketNumber: "A1",
      queueDate: "2026-03-12",
      arrivalType: "walk_in",
      priority: "normal",
      estimatedWaitMinutes: null,
      notes: `${SECRET} is nervous`,
      ...subject,
    },
  });
  const contact = { fullName: SECRET, phone: SECRET, email: `${SECRET}@example.com`, city: SECRET };
  const animal = { name: SECRET, species: SECRET, breed: SECRET, sex: SECRET, microchip: SECRET };
  const events: GivenEvent[] = [
    customerRegistered(clinicId, customerId, contact),
    animalRegistered(clinicId, customerId, animalId, animal),
    animalRegistered(clinicId, customerId, otherAnimalId, animal),
    appointment,
    createTicket({ animalId: otherAnimalId }),
    createTicket({ appointmentId }),
  ];
  const requestVisit = () =>
    appointmentRequested(clinicId, randomUUID(), "2026-03-12T10:00:00Z", { animalId, customerId, notes: SECRET });
  const lateEvents: GivenEvent[] = [
    requestVisit(),
    createTicket({ animalId, customerId }),
    animalRegistered(clinicId, customerId, randomUUID(), animal),
    { type: "AnimalDetailsChanged", data: { animalId, birthDate: null, ...animal } },
  ];
  return { customerId, events, createTicket, requestVisit, animalId, lateEvents };
}

describe("erasures of customers in the read models", () => {
  const database = useResource(createReadModelDatabase);

  /** Returns all rows that can contain data of the clinic's customers, as JSON. */
  async function readRows(clinicId: string): Promise<{ table: string; row: string }[]> {
    const { rows } = await database.admin.query<{ table: string; row: string }>(
      ["customer", "animal", "appointment", "queue_ticket"]
        .map(
          (table) =>
            `SELECT '${table}' AS table, to_jsonb(t)::text AS row FROM ${READ_MODEL_SCHEMA}.${table} t WHERE clinic_id = $1`,
        )
        .join(" UNION ALL "),
      [clinicId],
    );
    return rows;
  }

  const countSecretRows = async (clinicId: string) =>
    (await readRows(clinicId)).filter(({ row }) => row.includes(SECRET)).length;

  it("an erasure writes neutral values to all rows of the customer, and to no row of another customer", async () => {
    const clinicId = randomUUID();
    const [customer, otherCustomer] = [createCustomer(clinicId), createCustomer(clinicId)];
    await database.given(...customer.events, ...otherCustomer.events);
    expect(await countSecretRows(clinicId)).to.equal(12);
    await database.given(createErasedEvent(customer.customerId, ["contact", "animal", "notes"]));
    const rows = await readRows(clinicId);
    expect(rows.map(({ table }) => table)).to.have.length(12);
    const secretRows = rows.filter(({ row }) => row.includes(SECRET));
    expect(secretRows).to.have.length(6);
    expect(secretRows.every(({ row }) => !row.includes(customer.customerId))).to.equal(true);
    const customerRow = rows.find(({ table, row }) => table === "customer" && row.includes(customer.customerId));
    expect(JSON.parse(customerRow!.row)).to.include({ full_name: "(erased)", phone: null, email: null, city: null });
  });

  it("an erasure of one category keeps the others, and does not depend on how the events are divided into batches", async () => {
    for (const isOneBatch of [true, false]) {
      const clinicId = randomUUID();
      const [first, second] = [createCustomer(clinicId), createCustomer(clinicId)];
      const events = [
        ...first.events,
        createErasedEvent(first.customerId, ["notes"]),
        ...second.events,
        // New notes after the erasure stay. The later erasures also erase the rows that follow the first erasure.
        first.createTicket({ animalId: first.animalId }),
        createErasedEvent(second.customerId, ["contact"]),
        createErasedEvent(second.customerId, ["animal", "notes"]),
      ];
      if (isOneBatch) await database.given(...events);
      else for (const event of events) await database.given(event);
      const secretTables = (await readRows(clinicId))
        .filter(({ row }) => row.includes(SECRET))
        .map(({ table }) => table);
      expect(secretTables, String(isOneBatch)).to.have.members(["customer", "animal", "animal", "queue_ticket"]);
    }
  });

  it("data that is recorded after an erasure of the contact data is not written to the rows", async () => {
    for (const isOneBatch of [true, false]) {
      const clinicId = randomUUID();
      const { customerId, events, lateEvents } = createCustomer(clinicId);
      const otherCustomer = createCustomer(clinicId);
      const erased = createErasedEvent(customerId, ["contact", "animal", "notes"]);
      const allEvents = [...events, ...otherCustomer.events, erased, ...lateEvents, ...otherCustomer.lateEvents];
      if (isOneBatch) await database.given(...allEvents);
      else for (const event of allEvents) await database.given(event);
      const rows = await readRows(clinicId);
      expect(rows).to.have.length(18);
      const secretRows = rows.filter(({ row }) => row.includes(SECRET));
      expect(secretRows, String(isOneBatch)).to.have.length(9);
      expect(secretRows.every(({ row }) => !row.includes(customerId))).to.equal(true);
    }
  });

  it("notes after an erasure of notes are written, unless their data key is older than the erasure", async () => {
    const clinicId = randomUUID();
    const { customerId, events, requestVisit } = createCustomer(clinicId);
    await database.given(...events, { ...createErasedEvent(customerId, ["notes"]), at: "2026-03-11T10:00:00.000Z" });
    const notes: unknown[] = [];
    for (const createdAt of ["2026-03-11T09:59:59Z", "2026-03-11T10:00:01Z"]) {
      const dataKeyId = randomUUID();
      await database.admin.query(
        `INSERT INTO data_keys.data_key (id, person_type, person_id, category, created_at, destroyed_at)
         VALUES ($1, 'customer', $2, 'notes', $3, $3)`,
        [dataKeyId, customerId, createdAt],
      );
      const visit = requestVisit();
      await database.given({ ...visit, dataKeyId });
      const sql = `SELECT notes FROM ${READ_MODEL_SCHEMA}.appointment WHERE appointment_id = $1`;
      const { rows } = await database.admin.query(sql, [(visit.data as { appointmentId: string }).appointmentId]);
      notes.push(rows[0]?.notes);
    }
    expect(notes).to.deep.equal([null, SECRET]);
  });

  it("an erasure of a customer with more rows than one page changes all of them", async () => {
    const clinicId = randomUUID();
    const { customerId, events } = createCustomer(clinicId);
    const appointments = Array.from({ length: 1_100 }, () =>
      appointmentRequested(clinicId, randomUUID(), "2026-03-12T10:00:00Z", { customerId, notes: SECRET }),
    );
    await database.given(...events, ...appointments);
    await database.given(createErasedEvent(customerId, ["contact", "animal", "notes"]));
    expect(await countSecretRows(clinicId)).to.equal(0);
  });

  it("erasures of a staff member, an appointment, a ticket and a portal user change their rows", async () => {
    const clinicId = randomUUID();
    const [staffId, userId] = [randomUUID(), randomUUID()];
    const { createTicket } = createCustomer(clinicId);
    const ticket = createTicket({});
    const { ticketId } = ticket.data as { ticketId: string };
    const appointment = appointmentRequested(clinicId, randomUUID(), "2026-03-12T10:00:00Z", { notes: SECRET });
    const { appointmentId } = appointment.data as { appointmentId: string };
    const hired = { staffId, clinicId, userId, fullName: SECRET, email: null, role: "owner" as const };
    await database.given(
      { type: "StaffMemberHired", data: hired },
      { type: "ClinicSelected", data: { userId, clinicId, branchId: null } },
      ...[appointment, ticket],
    );
    const erasure = { cause: "retention", reason: "Kept for 12 months" } as const;
    await database.given(
      { type: "StaffDataErased", data: { staffId, categories: ["contact"], ...erasure } },
      { type: "PortalUserDataErased", data: { userId, categories: ["contact"], ...erasure } },
      { type: "AppointmentDataErased", data: { appointmentId, categories: ["notes"], ...erasure } },
      { type: "QueueTicketDataErased", data: { ticketId, categories: ["notes"], ...erasure } },
    );
    expect(await countSecretRows(clinicId)).to.equal(0);
    const { rows } = await database.admin.query(
      `SELECT full_name, (SELECT count(*)::int FROM ${READ_MODEL_SCHEMA}.clinic_selection WHERE user_id = $2) AS selections,
              (SELECT array_agg(person_type ORDER BY person_type) FROM ${READ_MODEL_SCHEMA}.erasure
                WHERE person_id = ANY ($3)) AS erased
         FROM ${READ_MODEL_SCHEMA}.staff WHERE staff_id = $1`,
      [staffId, userId, [staffId, userId, appointmentId, ticketId]],
    );
    const erasedTypes = ["appointment", "portalUser", "queueTicket", "staff"];
    expect(rows).to.deep.equal([{ full_name: null, selections: 0, erased: erasedTypes }]);
  });
});
