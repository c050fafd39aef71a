import { expect } from "chai";
import type { AuditEvent } from "../../../command/audit/log/audit-event.ts";
import {
  createRelatedEventFilter,
  getStreamPrefixes,
  type Subject,
  TooManyRelatedEventsError,
} from "../../../command/audit/related-events/related-events.ts";

const createId = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
const [CLINIC_ID, CUSTOMER_ID, ANIMAL_ID, APPOINTMENT_ID, OTHER_APPOINTMENT_ID] = [
  createId(1),
  createId(2),
  createId(3),
  createId(4),
  createId(5),
];
const [APPLICATION_ID, ENDPOINT_ID, DELIVERY_ID, TICKET_ID, CORRELATION_ID] = [
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
const replayEvent = createEvent(`webhookDelivery-${DELIVERY_ID}`, 1, "WebhookDeliveryReplayRequested", {
  data: { deliveryId: DELIVERY_ID, endpointId: ENDPOINT_ID },
});
/**
 * A log with events of several clinics, customers and partners. Each event has a name, which the expected results use.
 */
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
  failed: createEvent(`webhookDelivery-${DELIVERY_ID}`, 0, "WebhookDeliveryFailed", {
    causationId: confirmedEvent.id,
    correlationId: CORRELATION_ID,
    data: {
      deliveryId: DELIVERY_ID,
      endpointId: ENDPOINT_ID,
      source: { eventId: confirmedEvent.id, stream: confirmedEvent.stream, revision: confirmedEvent.revision },
    },
  }),
  replayed: replayEvent,
  disabled: createEvent(`webhookEndpoint-${ENDPOINT_ID}`, 1, "WebhookEndpointDisabled", {
    causationId: replayEvent.id,
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

const listRelatedNames = (subject: Subject) => {
  const isRelated = createRelatedEventFilter(subject);
  const prefixes = getStreamPrefixes(subject.kind);
  const isScanned = ({ stream }: AuditEvent) => prefixes?.some((prefix) => stream.startsWith(prefix)) ?? true;
  return Object.keys(log).filter((name) => isScanned(log[name] as AuditEvent) && isRelated(log[name] as AuditEvent));
};

/** Events of the appointment, its queue ticket and its webhook delivery. */
const appointmentEventNames = ["requested", "confirmed", "ticket", "called", "failed", "replayed", "disabled"];

describe("createRelatedEventsFinder", () => {
  const cases: [Subject, string[]][] = [
    [{ kind: "appointment", id: APPOINTMENT_ID }, appointmentEventNames],
    [{ kind: "animal", id: ANIMAL_ID }, ["animal", "weighed", ...appointmentEventNames]],
    [{ kind: "customer", id: CUSTOMER_ID }, ["customer", "animal", "weighed", ...appointmentEventNames]],
    [
      { kind: "application", id: APPLICATION_ID },
      ["application", "endpoint", "requested", "confirmed", "failed", "replayed", "disabled"],
    ],
    [{ kind: "correlation", id: CORRELATION_ID }, ["confirmed", "failed"]],
    [
      { kind: "clinic", id: CLINIC_ID },
      Object.keys(log).filter((name) => !["application", "otherCustomer", "accessed"].includes(name)),
    ],
    [{ kind: "clinic", id: createId(12) }, ["otherCustomer"]],
    [{ kind: "auditor", id: createId(14) }, ["accessed"]],
    [{ kind: "appointment", id: OTHER_APPOINTMENT_ID }, ["otherRequested"]],
    [{ kind: "customer", id: createId(77) }, []],
  ];
  for (const [subject, names] of cases) {
    it(`the events related to ${subject.kind} ${subject.id.slice(-2)} are: ${names.join(", ") || "none"}`, () => {
      expect(listRelatedNames(subject)).to.have.members(names);
    });
  }

  it("the events related to an animal include an imported appointment and events that refer only to that appointment", () => {
    const [importedEvent, ticketEvent] = [
      createEvent(`appointment-${createId(21)}`, 0, "AppointmentImported", {
        clinicId: CLINIC_ID,
        data: { appointmentId: createId(21), animalId: ANIMAL_ID, clinicId: CLINIC_ID },
      }),
      createEvent(`queueTicket-${createId(22)}`, 0, "QueueTicketIssued", {
        clinicId: CLINIC_ID,
        data: { ticketId: createId(22), appointmentId: createId(21) },
      }),
    ];
    const isRelated = createRelatedEventFilter({ kind: "animal", id: ANIMAL_ID });
    expect([importedEvent, ticketEvent].map(isRelated)).to.deep.equal([true, true]);
  });

  it("the search for related events fails if a subject has more related ids than the maximum", () => {
    const isRelated = createRelatedEventFilter({ kind: "customer", id: CUSTOMER_ID }, 2);
    expect(() => Object.values(log).map(isRelated)).to.throw(TooManyRelatedEventsError, "more than 2 related events");
  });
});
