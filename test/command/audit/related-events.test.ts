import { expect } from "chai";
import type { AuditEvent } from "../../../command/audit/log/audit-event.ts";
import {
  createRelatedEventsFinder,
  getStreamPrefixes,
  type Subject,
  TooManyRelatedEventsError,
} from "../../../command/audit/related-events/related-events.ts";

const createId = (last: number) => `00000000-0000-4000-8000-${String(last).padStart(12, "0")}`;
const [CLINIC, CUSTOMER, ANIMAL, APPOINTMENT, OTHER] = [
  createId(1),
  createId(2),
  createId(3),
  createId(4),
  createId(5),
];
const [APPLICATION, ENDPOINT, DELIVERY, TICKET, REQUEST] = [
  createId(6),
  createId(7),
  createId(8),
  createId(9),
  createId(10),
];

let lastNumber = 100;
function createEvent(stream: string, revision: number, type: string, more: Partial<AuditEvent> = {}): AuditEvent {
  lastNumber += 1;
  return {
    ...{
      position: String(lastNumber),
      stream,
      revision,
      id: createId(lastNumber),
      type,
      schemaVersion: 1,
      environment: null,
    },
    ...{ occurredAt: null, storedAt: "2026-05-04T08:00:00.000Z", actor: null, clinicId: CLINIC },
    ...{ correlationId: createId(99), causationId: createId(99), data: {} },
    ...more,
  };
}

const confirmed = createEvent(`appointment-${APPOINTMENT}`, 1, "AppointmentConfirmed", {
  correlationId: REQUEST,
  data: { appointmentId: APPOINTMENT },
});
const replayed = createEvent(`webhookDelivery-${DELIVERY}`, 1, "WebhookDeliveryReplayRequested", {
  data: { deliveryId: DELIVERY, endpointId: ENDPOINT },
});
/**
 * A log with events of several clinics, customers and partners. Each event has a name, which the expected results use.
 */
const log: Record<string, AuditEvent> = {
  clinic: createEvent(`clinic-${CLINIC}`, 0, "ClinicRegistered", { data: { clinicId: CLINIC } }),
  customer: createEvent(`customer-${CUSTOMER}`, 0, "CustomerRegistered", { data: { customerId: CUSTOMER } }),
  animal: createEvent(`animal-${ANIMAL}`, 0, "AnimalRegistered", {
    data: { animalId: ANIMAL.toUpperCase(), customerId: CUSTOMER },
  }),
  weighed: createEvent(`animal-${ANIMAL}`, 1, "AnimalWeighed", { data: { animalId: ANIMAL, weightKg: 4 } }),
  application: createEvent(`partnerApplication-${APPLICATION}`, 0, "ApplicationRegistered", {
    ...{ clinicId: null, data: { applicationId: APPLICATION } },
  }),
  endpoint: createEvent(`webhookEndpoint-${ENDPOINT}`, 0, "WebhookEndpointRegistered", {
    data: { endpointId: ENDPOINT, applicationId: APPLICATION },
  }),
  requested: createEvent(`appointment-${APPOINTMENT}`, 0, "AppointmentRequested", {
    actor: { type: "application", id: APPLICATION },
    data: { appointmentId: APPOINTMENT, animalId: ANIMAL, applicationId: APPLICATION },
  }),
  confirmed,
  otherRequested: createEvent(`appointment-${OTHER}`, 0, "AppointmentRequested", {
    data: { appointmentId: OTHER },
  }),
  ticket: createEvent(`queueTicket-${TICKET}`, 0, "QueueTicketIssued", {
    data: { appointmentId: APPOINTMENT },
  }),
  called: createEvent(`queueTicket-${TICKET}`, 1, "QueueTicketCalled", { data: { ticketId: TICKET } }),
  failed: createEvent(`webhookDelivery-${DELIVERY}`, 0, "WebhookDeliveryFailed", {
    ...{ causationId: confirmed.id, correlationId: REQUEST },
    data: {
      ...{ deliveryId: DELIVERY, endpointId: ENDPOINT },
      source: { stream: confirmed.stream, revision: confirmed.revision },
    },
  }),
  replayed,
  disabled: createEvent(`webhookEndpoint-${ENDPOINT}`, 1, "WebhookEndpointDisabled", {
    ...{ causationId: replayed.id, data: { endpointId: ENDPOINT, reason: "no_success" } },
  }),
  otherCustomer: createEvent(`customer-${createId(11)}`, 0, "CustomerRegistered", {
    clinicId: createId(12),
    data: { clinicId: createId(12) },
  }),
  accessed: createEvent(`auditAccess-${createId(13)}`, 0, "AuditAccessed", {
    ...{
      clinicId: null,
      actor: { type: "auditor", id: createId(14) },
      data: { asked: { customer: CUSTOMER } },
    },
  }),
};

const listRelated = (subject: Subject) => {
  const isRelated = createRelatedEventsFinder(subject);
  const prefixes = getStreamPrefixes(subject.kind);
  const isScanned = ({ stream }: AuditEvent) => prefixes?.some((prefix) => stream.startsWith(prefix)) ?? true;
  return Object.keys(log).filter((name) => isScanned(log[name] as AuditEvent) && isRelated(log[name] as AuditEvent));
};

/** Events of the appointment, its queue ticket and its webhook delivery. */
const appointmentEvents = ["requested", "confirmed", "ticket", "called", "failed", "replayed", "disabled"];

describe("createRelatedEventsFinder", () => {
  const cases: [Subject, string[]][] = [
    [{ kind: "appointment", id: APPOINTMENT }, appointmentEvents],
    [{ kind: "animal", id: ANIMAL }, ["animal", "weighed", ...appointmentEvents]],
    [{ kind: "customer", id: CUSTOMER }, ["customer", "animal", "weighed", ...appointmentEvents]],
    [
      { kind: "application", id: APPLICATION },
      ["application", "endpoint", "requested", "confirmed", "failed", "replayed", "disabled"],
    ],
    [{ kind: "correlation", id: REQUEST }, ["confirmed", "failed"]],
    [
      { kind: "clinic", id: CLINIC },
      Object.keys(log).filter((name) => !["application", "otherCustomer", "accessed"].includes(name)),
    ],
    [{ kind: "clinic", id: createId(12) }, ["otherCustomer"]],
    [{ kind: "auditor", id: createId(14) }, ["accessed"]],
    [{ kind: "appointment", id: OTHER }, ["otherRequested"]],
    [{ kind: "customer", id: createId(77) }, []],
  ];
  for (const [subject, names] of cases) {
    it(`the events related to ${subject.kind} ${subject.id.slice(-2)} are: ${names.join(", ") || "none"}`, () => {
      expect(listRelated(subject)).to.have.members(names);
    });
  }

  it("the events related to an animal include an imported appointment and events that refer only to that appointment", () => {
    const [imported, ticket] = [
      createEvent(`appointment-${createId(21)}`, 0, "AppointmentImported", {
        ...{ clinicId: CLINIC, data: { appointmentId: createId(21), animalId: ANIMAL, clinicId: CLINIC } },
      }),
      createEvent(`queueTicket-${createId(22)}`, 0, "QueueTicketIssued", {
        ...{ clinicId: CLINIC, data: { ticketId: createId(22), appointmentId: createId(21) } },
      }),
    ];
    const isRelated = createRelatedEventsFinder({ kind: "animal", id: ANIMAL });
    expect([imported, ticket].map(isRelated)).to.deep.equal([true, true]);
  });

  it("the search for related events fails if a subject has more related ids than the maximum", () => {
    const isRelated = createRelatedEventsFinder({ kind: "customer", id: CUSTOMER }, 2);
    expect(() => Object.values(log).map(isRelated)).to.throw(TooManyRelatedEventsError, "more than 2 related events");
  });
});
