import { z } from "zod";
import { type Appointment, appointmentAggregate } from "../domain/appointment/appointment.ts";
import type { AppointmentEvent } from "../domain/events/appointment.ts";
import type { CatalogEvent } from "../domain/events/catalog.ts";
import { type Environment, environment } from "../domain/events/fields.ts";
import type { EventMetadata } from "../domain/events/metadata.ts";
import { type OperationalEventType, type WebhookEndpointEvent, webhookEventType } from "../domain/events/partner.ts";
import type { RecordedEvent } from "../domain/events/recorded-event.ts";
import { EventSchemaError } from "../domain/events/stored-event.ts";
import { type Endpoint, endpointAggregate } from "../domain/partner/webhook-endpoint.ts";
import { getPublicType } from "./public-event.ts";
import { partnerAppointment, toPartnerAppointment } from "./records.ts";

const instant = z.iso.datetime({ precision: 3 });

export const webhookEnvelope = {
  id: z.guid().meta({ description: "Id of the event. It is the same for all endpoints that receive the event." }),
  apiVersion: z.literal("v1"),
  createdAt: instant,
  environment,
  clinicId: z.guid(),
};

interface Envelope<Type, ClinicId, BranchId> {
  id: string;
  type: Type;
  createdAt: string;
  environment: Environment;
  clinicId: ClinicId;
  branchId: BranchId;
}

/** Creates a body. Its members have the same order in every body of an event, so that all have the same bytes. */
export function createBody<const Type, ClinicId, BranchId, Data>(
  { id, type, createdAt, environment, clinicId, branchId }: Envelope<Type, ClinicId, BranchId>,
  data: Data,
) {
  return { id, type, apiVersion: "v1" as const, createdAt, environment, clinicId, branchId, data };
}

/** Envelope of events about an endpoint. They belong to no branch. */
const endpointEnvelope = {
  ...webhookEnvelope,
  clinicId: z.guid().nullable().describe("Clinic of the endpoint. Null if the endpoint belongs to the application."),
  branchId: z.null(),
};

const endpointReference = z.strictObject({ id: z.guid(), url: z.url() });

/** Declares the body of an operational event. */
const defineOperationalBody = <Type extends OperationalEventType, Data extends z.ZodRawShape>(type: Type, data: Data) =>
  z.strictObject({
    ...endpointEnvelope,
    type: z.literal(type),
    data: z.strictObject({ endpoint: endpointReference, ...data }),
  });

export const endpointFailingBody = defineOperationalBody("endpoint.failing", {
  failingSince: instant.describe("Time of the first failed attempt since the last success."),
  failedAttempts: z.int().min(1).describe("Number of failed attempts since then."),
});
export const endpointDisabledBody = defineOperationalBody("endpoint.disabled", {
  reason: z
    .string()
    .describe("Reason as in `disabledReason` of the endpoint: `partner`, `operator`, `gone` or `no_success`."),
});
export const secretExpiringBody = defineOperationalBody("secret.expiring", {
  expiresAt: instant.describe("Time from which deliveries are no longer signed with the former secret."),
});

type OperationalBody =
  | z.infer<typeof endpointFailingBody>
  | z.infer<typeof endpointDisabledBody>
  | z.infer<typeof secretExpiringBody>;

interface OperationalEvent {
  body: OperationalBody;
  onlyApplicationId: string;
  /** Endpoint that does not receive the event, because the event is about a failure of this endpoint. */
  exceptEndpointId: string | null;
}

export function isOperational({ type }: { type: string }): boolean {
  return OPERATIONAL_EVENT_TYPES.has(type);
}

const OPERATIONAL_EVENT_TYPES: ReadonlySet<string> = new Set<WebhookEndpointEvent["type"]>([
  "WebhookEndpointFailureReported",
  "WebhookEndpointDisabled",
  "WebhookSecretExpiryReported",
]);

/**
 * Creates the operational event for the last event of an endpoint.
 *
 * @param history the endpoint's events up to the event to publish
 * @returns undefined if partners get no operational event for the last event
 */
export function toOperationalEvent(
  history: readonly RecordedEvent<WebhookEndpointEvent>[],
): OperationalEvent | undefined {
  const lastEvent = history.at(-1);
  const endpoint = history.reduce<Endpoint | undefined>(endpointAggregate.evolve, undefined);
  if (!lastEvent || !endpoint) return undefined;
  const { id, clinicId, environment, applicationId } = endpoint;
  const data = toOperationalData(lastEvent, endpoint);
  if (!data) return undefined;
  const type = getPublicType(lastEvent.type) as OperationalEventType;
  const envelope = {
    id: lastEvent.id,
    createdAt: lastEvent.metadata.occurredAt,
    environment,
    clinicId,
    branchId: null,
  };
  const exceptEndpointId = type === "secret.expiring" ? null : id;
  return {
    body: createBody({ ...envelope, type }, data) as OperationalBody,
    onlyApplicationId: applicationId,
    exceptEndpointId,
  };
}

/**
 * Returns the data of an operational event.
 *
 * @param endpoint the endpoint after the event
 * @returns undefined if partners get no operational event
 */
export function toOperationalData(
  event: CatalogEvent,
  { id, url, status }: Pick<Endpoint, "id" | "url" | "status">,
): OperationalBody["data"] | undefined {
  const endpoint = { id, url };
  switch (event.type) {
    case "WebhookEndpointFailureReported":
      return { endpoint, failingSince: event.data.since, failedAttempts: event.data.failedAttempts };
    case "WebhookEndpointDisabled":
      // The event may come just after a revocation, and then changes nothing.
      return status === "disabled" ? { endpoint, reason: event.data.reason } : undefined;
    case "WebhookSecretExpiryReported":
      return { endpoint, expiresAt: event.data.expiresAt };
    default:
      return undefined;
  }
}

/** Fields of an appointment that can change and that partners receive in webhooks. */
const changingFields = partnerAppointment.pick({ scheduledAt: true, durationMinutes: true, status: true }).shape;
type ChangingField = keyof typeof changingFields;

const defineFieldChange = <Value extends z.ZodType>(value: Value) =>
  z.strictObject({ from: value, to: value }).optional();

const appointmentChange = z.strictObject({
  causedBy: z
    .enum(["clinic", "application", "system"])
    .describe(
      "Who changed the appointment: the clinic, a partner's application or the service itself. Changes that an application rehearses in its sandbox are those of the clinic.",
    ),
  fields: z
    .strictObject({
      scheduledAt: defineFieldChange(changingFields.scheduledAt),
      durationMinutes: defineFieldChange(changingFields.durationMinutes),
      status: defineFieldChange(changingFields.status),
    })
    .describe("Fields that changed, with their old and new values."),
});
type AppointmentChange = z.infer<typeof appointmentChange>;

/** Schema of the body of an appointment event, without notes and customer. */
export const appointmentBody = z.strictObject({
  ...webhookEnvelope,
  type: webhookEventType,
  branchId: z.guid(),
  data: z.strictObject({
    appointment: partnerAppointment.omit({ notes: true }),
    change: appointmentChange.optional().describe("The change. Absent in `appointment.created`."),
  }),
});
type AppointmentBody = z.infer<typeof appointmentBody>;

/** Schema of the body of a test event, which describes no change at the clinic. */
export const endpointTestBody = z.strictObject({
  ...endpointEnvelope,
  type: z.literal("endpoint.test"),
  data: z.strictObject({ test: z.literal(true) }),
});
type EndpointTestBody = z.infer<typeof endpointTestBody>;

/**
 * Creates the public event for an event of an appointment.
 *
 * @param formerAppointment the appointment before the event; undefined before its first event
 * @returns undefined if the first event is neither a request nor an import, or the event has no environment
 * @throws {EventSchemaError} if the event belongs to another clinic than the appointment
 */
export function toWebhookBody(
  formerAppointment: Appointment | undefined,
  event: RecordedEvent<AppointmentEvent>,
): AppointmentBody | undefined {
  const appointment = appointmentAggregate.evolve(formerAppointment, event);
  if (!event.metadata.environment || !appointment) return undefined;
  if (event.metadata.clinicId !== appointment.clinicId)
    throw new EventSchemaError(`${event.type} belongs to another clinic than its appointment`);
  const { notes: _, ...record } = toPartnerAppointment(appointment, event.revision);
  const { clinicId, branchId } = appointment;
  const { occurredAt: createdAt, environment } = event.metadata;
  const type = event.type === "AppointmentRequested" ? "appointment.created" : "appointment.updated";
  const change = formerAppointment && describeChange(formerAppointment, appointment, event.metadata);
  const envelope = { id: event.id, type, createdAt, environment, clinicId, branchId } as const;
  return createBody(envelope, { appointment: record, ...(change && { change }) });
}

type ChangingFields = Pick<Appointment, ChangingField>;

export function describeChange(
  formerAppointment: ChangingFields,
  appointment: ChangingFields,
  { actor, environment }: EventMetadata,
): AppointmentChange {
  const fieldChanges = (Object.keys(changingFields) as ChangingField[])
    .map((name) => [name, { from: formerAppointment[name], to: appointment[name] }] as const)
    .filter(([, { from, to }]) => from !== to);
  const isByApplication = actor.type === "application" && environment === "production";
  const causedBy = actor.type === "system" ? "system" : isByApplication ? "application" : "clinic";
  return { causedBy, fields: Object.fromEntries(fieldChanges) };
}

export const TEST_DATA = { test: true } as const;

type EndpointTestedEvent = CatalogEvent & { type: "WebhookEndpointTested"; metadata: EventMetadata };

/**
 * Creates the public event for a requested test of an endpoint.
 *
 * @returns undefined if the event has no environment
 */
export function toTestBody({ data: { testId }, metadata }: EndpointTestedEvent): EndpointTestBody | undefined {
  const { environment, clinicId, occurredAt } = metadata;
  if (!environment) return undefined;
  const envelope = { id: testId, type: "endpoint.test", createdAt: occurredAt, environment, clinicId, branchId: null };
  return createBody(envelope as typeof envelope & { type: "endpoint.test" }, TEST_DATA);
}
