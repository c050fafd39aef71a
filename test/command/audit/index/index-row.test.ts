import { expect } from "chai";
import { z } from "zod";
import { toKey, toPurposeKey } from "../../../../command/audit/index/index-keys.ts";
import { type IndexRow, toEventFacts, toIndexRow } from "../../../../command/audit/index/index-row.ts";
import type { AuditEvent } from "../../../../command/audit/log/audit-event.ts";
import { categories } from "../../../../shared/domain/events/catalog.ts";
import type { Category } from "../../../../shared/domain/events/category.ts";

const createId = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
const [CLINIC_ID, CUSTOMER_ID, ANIMAL_ID, APPOINTMENT_ID, OTHER_APPOINTMENT_ID] = [
  createId(1),
  createId(2),
  createId(3),
  createId(4),
  createId(5),
];
const [APPLICATION_ID, ENDPOINT_ID, REPLAY_ID, TICKET_ID, CORRELATION_ID] = [
  createId(6),
  createId(7),
  createId(8),
  createId(9),
  createId(10),
];

let lastNumber = 100;
function createEvent(stream: string, revision: number, type: string, overrides: Partial<AuditEvent> = {}): AuditEvent {
  lastNumber += 1;
  return {
    position: String(lastNumber),
    stream,
    revision,
    id: createId(lastNumber),
    type,
    schemaVersion: 1,
    environment: null,
    occurredAt: null,
    storedAt: "2026-05-04T08:00:00.000Z",
    actor: null,
    clinicId: CLINIC_ID,
    correlationId: createId(99),
    causationId: createId(99),
    data: {},
    ...overrides,
  };
}

const confirmedEvent = createEvent(`appointment-${APPOINTMENT_ID}`, 1, "AppointmentConfirmed", {
  correlationId: CORRELATION_ID,
  data: { appointmentId: APPOINTMENT_ID },
});
/** A log with events of several clinics, customers and partners. The expected results refer to the events by key. */
const log: Record<string, AuditEvent> = {
  clinic: createEvent(`clinic-${CLINIC_ID}`, 0, "ClinicRegistered", { data: { clinicId: CLINIC_ID } }),
  customer: createEvent(`customer-${CUSTOMER_ID}`, 0, "CustomerRegistered", { data: { customerId: CUSTOMER_ID } }),
  animal: createEvent(`animal-${ANIMAL_ID}`, 0, "AnimalRegistered", {
    data: { animalId: ANIMAL_ID.toUpperCase(), customerId: CUSTOMER_ID },
  }),
  weighed: createEvent(`animal-${ANIMAL_ID}`, 1, "AnimalWeighed", { data: { animalId: ANIMAL_ID, weightKg: 4 } }),
  application: createEvent(`partnerApplication-${APPLICATION_ID}`, 0, "ApplicationRegistered", {
    clinicId: null,
    data: { applicationId: APPLICATION_ID },
  }),
  endpoint: createEvent(`webhookEndpoint-${ENDPOINT_ID}`, 0, "WebhookEndpointRegistered", {
    data: { endpointId: ENDPOINT_ID, applicationId: APPLICATION_ID },
  }),
  requested: createEvent(`appointment-${APPOINTMENT_ID}`, 0, "AppointmentRequested", {
    actor: { type: "application", id: APPLICATION_ID },
    data: { appointmentId: APPOINTMENT_ID, animalId: ANIMAL_ID, applicationId: APPLICATION_ID },
  }),
  confirmed: confirmedEvent,
  otherRequested: createEvent(`appointment-${OTHER_APPOINTMENT_ID}`, 0, "AppointmentRequested", {
    data: { appointmentId: OTHER_APPOINTMENT_ID },
  }),
  ticket: createEvent(`queueTicket-${TICKET_ID}`, 0, "QueueTicketIssued", {
    data: { appointmentId: APPOINTMENT_ID },
  }),
  called: createEvent(`queueTicket-${TICKET_ID}`, 1, "QueueTicketCalled", { data: { ticketId: TICKET_ID } }),
  replayed: createEvent(`webhookReplay-${REPLAY_ID}`, 0, "WebhookReplayRequested", {
    data: { replayId: REPLAY_ID, endpointId: ENDPOINT_ID, applicationId: APPLICATION_ID },
  }),
  disabled: createEvent(`webhookEndpoint-${ENDPOINT_ID}`, 1, "WebhookEndpointDisabled", {
    causationId: confirmedEvent.id,
    correlationId: CORRELATION_ID,
    data: { endpointId: ENDPOINT_ID, reason: "no_success" },
  }),
  otherCustomer: createEvent(`customer-${createId(11)}`, 0, "CustomerRegistered", {
    clinicId: createId(12),
    data: { clinicId: createId(12) },
  }),
  accessed: createEvent(`auditAccess-${createId(13)}`, 0, "AuditAccessed", {
    clinicId: null,
    actor: { type: "auditor", id: createId(14) },
    data: { asked: { customer: CUSTOMER_ID } },
  }),
};

/** Creates the index rows of the given events, in log order. No other events exist. */
function createRows(events: readonly AuditEvent[]): IndexRow[] {
  const [objects, causes] = [new Map<string, IndexRow>(), new Map<string, IndexRow>()];
  return events.map((event) => {
    const facts = toEventFacts(event);
    const row = toIndexRow(facts, { objects, causes });
    for (const key of facts.startedKeys) objects.set(key, row);
    causes.set(facts.eventId, row);
    return row;
  });
}

const rows = createRows(Object.values(log));
const listRelatedNames = (key: string) => Object.keys(log).filter((_, index) => rows[index]?.keys.includes(key));

/** Events of the appointment and its queue ticket, and an event that its webhook delivery caused. */
const appointmentEventNames = ["requested", "confirmed", "ticket", "called", "disabled"];

type JsonSchema = z.core.JSONSchema.BaseSchema;

/** Lists the names of the fields in a schema that contain ids. */
function listIdFields(schema: JsonSchema, name = ""): string[] {
  if (schema.format === "uuid") return [name];
  const members = Object.entries(schema.properties ?? {});
  const inner = [schema.items ?? [], schema.anyOf ?? []].flat().map((part) => [name, part] as const);
  return [...members, ...inner].flatMap(([field, part]) => listIdFields(part as JsonSchema, field));
}

describe("a row of the audit index", () => {
  const cases: [string, string, string[]][] = [
    ["the appointment", APPOINTMENT_ID, appointmentEventNames],
    ["the animal", ANIMAL_ID, ["animal", "weighed", ...appointmentEventNames]],
    ["the customer", CUSTOMER_ID, ["customer", "animal", "weighed", ...appointmentEventNames]],
    ["the application", APPLICATION_ID, ["application", "endpoint", ...appointmentEventNames, "replayed"]],
    ["the request", toPurposeKey("correlation", CORRELATION_ID), ["confirmed", "disabled"]],
    [
      "the clinic",
      toPurposeKey("clinic", CLINIC_ID),
      Object.keys(log).filter((name) => !["application", "otherCustomer", "accessed"].includes(name)),
    ],
    ["another clinic", toPurposeKey("clinic", createId(12)), ["otherCustomer"]],
    ["the auditor", createId(14), ["accessed"]],
    ["another appointment", OTHER_APPOINTMENT_ID, ["otherRequested"]],
    ["the record that an access names", toPurposeKey("accessed", CUSTOMER_ID), ["accessed"]],
    ["an unknown id", createId(77), []],
  ];
  for (const [name, key, names] of cases) {
    it(`the events of ${name} are: ${names.join(", ") || "none"}`, () => {
      expect(listRelatedNames(key)).to.have.members(names);
    });
  }

  it("the events of an animal include an imported appointment and events that name only that appointment", () => {
    const [imported, ticket] = createRows([
      createEvent(`appointment-${createId(21)}`, 0, "AppointmentImported", {
        data: { appointmentId: createId(21), animalId: ANIMAL_ID, clinicId: CLINIC_ID },
      }),
      createEvent(`queueTicket-${createId(22)}`, 0, "QueueTicketIssued", {
        data: { ticketId: createId(22), appointmentId: createId(21) },
      }),
    ]);
    expect([imported?.subjects, ticket?.subjects]).to.deep.equal([
      [createId(21), ANIMAL_ID],
      [createId(21), ANIMAL_ID],
    ]);
    expect(ticket?.keys).to.include.members([createId(22), createId(21), ANIMAL_ID]);
  });

  it("a customer has the event that withdraws a link to an animal, although the event names only the animal", () => {
    const [, withdrawn] = createRows([
      createEvent(`animal-${ANIMAL_ID}`, 0, "AnimalRegistered", {
        data: { animalId: ANIMAL_ID, customerId: CUSTOMER_ID },
      }),
      createEvent(`animalConsent-${ANIMAL_ID}`, 4, "AnimalLinkWithdrawn", { data: { animalId: ANIMAL_ID } }),
    ]);
    expect(withdrawn?.subjects).to.deep.equal([ANIMAL_ID, CUSTOMER_ID]);
  });

  it("an event inherits from each appointment, animal, customer, application, installation and endpoint that it names", () => {
    const schemas = (categories as readonly Category[]).flatMap(({ events }) => Object.values(events));
    const fields = new Set(
      schemas.flatMap((schema) => listIdFields(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }))),
    );
    const others = [...fields].filter((field) => {
      const [, row] = createRows([
        createEvent(`animal-${ANIMAL_ID}`, 0, "AnimalRegistered", { data: { customerId: CUSTOMER_ID } }),
        createEvent("other-1", 0, "Other", { data: { [field]: ANIMAL_ID } }),
      ]);
      return !row?.subjects.includes(CUSTOMER_ID);
    });
    expect(others).to.have.members([
      ...["clinicId", "clinicIds", "branchId", "branchIds", "resourceId", "serviceId", "ruleId", "staffId", "userId"],
      ...["assignmentId", "reservationId", "holdId", "ticketId", "visitId", "linkId", "lastLinkId", "membershipId"],
      ...["credentialId", "secretId", "approvedBy", "testId", "replayId", "deliveryIds", "operatorId", "auditorId"],
      ...["accessId", "found", "treeId"],
    ]);
  });

  it("a reservation concerns its appointment, but not the other appointments of the day", () => {
    const [, , row] = createRows([
      createEvent(`appointment-${APPOINTMENT_ID}`, 0, "AppointmentRequested", { data: { animalId: ANIMAL_ID } }),
      createEvent(`appointment-${OTHER_APPOINTMENT_ID}`, 0, "AppointmentRequested", {
        data: { animalId: createId(41) },
      }),
      createEvent(`resourceDay-${createId(42)}.2026-05-06`, 0, "PlaceReserved", {
        data: {
          holderId: APPOINTMENT_ID,
          reservations: [{ holderId: APPOINTMENT_ID }, { holderId: OTHER_APPOINTMENT_ID }],
        },
      }),
    ]);
    expect(row?.subjects).to.deep.equal([APPOINTMENT_ID, ANIMAL_ID]);
  });

  it("an event that names more ids than the maximum has the first ones", () => {
    const ids = Array.from({ length: 2_700 }, (_, number) => createId(10_000 + number));
    const [row] = createRows([createEvent("sandbox-1", 0, "SandboxReset", { data: { ids } })]);
    expect(row?.keys).to.include.members(ids.slice(0, 2_500)).and.not.include(ids[2_500]);
  });

  it("an access to 500 appointments, with 900 names, belongs to all records in the response", () => {
    const found = Array.from({ length: 3 * 500 + 900 }, (_, number) => createId(10_000 + number));
    const data = {
      action: "appointments",
      asked: { clinic: CLINIC_ID, day: "2026-05-06" },
      found,
      clinicIds: [CLINIC_ID],
    };
    const [access] = createRows([createEvent(`auditAccess-${createId(30)}`, 0, "AuditAccessed", { data })]);
    const keys = new Set(access?.keys);
    expect(found.filter((id) => !keys.has(toPurposeKey("accessed", id)))).to.deep.equal([]);
  });

  it("an access belongs to the records that its query names, and to their animals, customers and clinics", () => {
    const accessId = createId(30);
    const [, , access] = createRows([
      createEvent(`animal-${ANIMAL_ID}`, 0, "AnimalRegistered", {
        data: { animalId: ANIMAL_ID, customerId: CUSTOMER_ID },
      }),
      createEvent(`appointment-${APPOINTMENT_ID}`, 0, "AppointmentRequested", {
        data: { appointmentId: APPOINTMENT_ID, animalId: ANIMAL_ID },
      }),
      createEvent(`auditAccess-${accessId}`, 0, "AuditAccessed", {
        clinicId: null,
        data: {
          accessId,
          action: "state",
          asked: { stream: `appointment-${APPOINTMENT_ID}` },
          found: [],
          clinicIds: [],
        },
      }),
    ]);
    const accessed = [APPOINTMENT_ID, ANIMAL_ID, CUSTOMER_ID, CLINIC_ID].map((id) => toPurposeKey("accessed", id));
    expect(access?.keys).to.include.members(accessed);
    expect(access?.subjects).to.deep.equal([]);
  });

  it("an id in event data never matches the key of a clinic, a request or a stream", () => {
    const ids = (["clinic", "correlation", "stream"] as const).map((purpose) => toPurposeKey(purpose, CLINIC_ID));
    const stream = `appointment-${ids[0]}`;
    const [row] = createRows([createEvent(stream, 0, "Other", { clinicId: ids[1] ?? null, data: { ids } })]);
    for (const id of ids) expect([row?.keys, row?.facts.startedKeys, row?.clinics].flat()).not.to.include(id);
  });

  it("an id that is no UUID has a key that is a UUID, and every release derives the same", () => {
    expect(toKey("B0B7A0A6-1F9C-4F0E-8F8B-2D4C6E8A0C11")).to.equal("b0b7a0a6-1f9c-4f0e-8f8b-2d4c6e8a0c11");
    expect(toKey("ada")).to.equal("fdee430d-40bd-87de-8ac1-86cd9790033d");
    expect(toPurposeKey("clinic", "ada")).to.equal("663a2402-2b67-0c2e-f7a8-eb1442f80b78");
  });
});
