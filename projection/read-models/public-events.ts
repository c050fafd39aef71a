import { appointmentStreams } from "../../shared/domain/events/appointment.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { sandboxStreams } from "../../shared/domain/events/sandbox.ts";
import type { Endpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import { getPublicType, toPublicData } from "../../shared/partner-api/public-events.ts";
import { appointmentSnapshot } from "../../shared/partner-api/records.ts";
import { defineReadModel, type FindRows, type RecordedEventOf, type RowOf } from "../engine/read-model.ts";
import { appointments, listPartnerResources } from "./appointments.ts";
import { webhookEndpoints } from "./webhook-endpoints.ts";

type AppointmentEventType = keyof typeof appointmentStreams.events;

type SourceEvent = RecordedEventOf<
  | AppointmentEventType
  | "InstallationApproved"
  | "InstallationNarrowed"
  | "InstallationRevoked"
  | "AnimalLinked"
  | "AnimalLinkWithdrawn"
  | "WebhookEndpointTested"
  | "WebhookEndpointFailureReported"
  | "WebhookEndpointDisabled"
  | "WebhookSecretExpiryReported"
  | "SandboxReset"
  | "CustomerDataErased"
>;

const columns = {
  event_id: "uuid",
  position: "bigint",
  occurred_at: "timestamptz",
  /** Null if partners do not receive the event. The row then only validates cursors of the list of changes. */
  type: "text",
  /** Null for an event about an endpoint of the application. */
  clinic_id: "uuid",
  branch_id: "uuid",
  appointment_id: "uuid",
  animal_id: "uuid",
  /** The only installation that receives the event; null for all installations of the clinic. */
  installation_id: "uuid",
  /** Endpoint that the event is about. Only the endpoint's application receives the event. */
  endpoint_id: "uuid",
  /**
   * Data for the webhook body; see `renderPublicEvent`. For an appointment, ids and time are missing, because the row
   * contains them.
   */
  data: "json",
  environment: "text",
  correlation_id: "uuid",
  /** W3C trace context of the command; null if tracing was off. */
  traceparent: "text",
} as const;

const nullable = [
  ...(["type", "clinic_id", "branch_id", "appointment_id", "animal_id"] as const),
  ...(["installation_id", "endpoint_id", "data", "environment", "traceparent"] as const),
] as const;

type PublicEventRow = RowOf<typeof columns, (typeof nullable)[number]>;

function getInstallationId({ type, data }: SourceEvent): string | null {
  if (type === "AnimalLinked" || type === "AnimalLinkWithdrawn")
    return deriveInstallationId(data.applicationId, data.clinicId);
  return "installationId" in data ? data.installationId : null;
}

type AppointmentRow = NonNullable<ReturnType<typeof appointments.on.AppointmentRequested>>;

/**
 * Records a public event, unless a row with its id exists. All events of a sandbox reset have the id of the reset, so a
 * reset has one row.
 *
 * @param data data of the public event; undefined if partners do not receive the event
 */
function recordEvent(
  row: PublicEventRow | undefined,
  event: SourceEvent,
  data: object | undefined,
  appointment?: AppointmentRow,
): PublicEventRow {
  const { occurredAt, clinicId, environment, $correlationId, traceparent } = event.metadata;
  return (
    row ?? {
      event_id: event.id,
      position: String(event.position),
      occurred_at: occurredAt,
      type: data ? getPublicType(event.type) : null,
      clinic_id: clinicId,
      branch_id: appointment?.branch_id ?? null,
      appointment_id: appointment?.appointment_id ?? null,
      animal_id: appointment?.animal_id ?? null,
      installation_id: getInstallationId(event),
      endpoint_id: "endpointId" in event.data ? event.data.endpointId : null,
      data: data ?? null,
      environment,
      correlation_id: $correlationId,
      traceparent: traceparent ?? null,
    }
  );
}

function recordAccessEvent(row: PublicEventRow | undefined, event: SourceEvent): PublicEventRow | undefined {
  const data = toPublicData(event, {});
  return data ? recordEvent(row, event, data) : row;
}

function recordEndpointEvent(
  row: PublicEventRow | undefined,
  event: SourceEvent,
  findRows: FindRows,
): PublicEventRow | undefined {
  const endpoint = findRows(webhookEndpoints).after;
  const data = toPublicData(event, {
    ...(endpoint && { endpoint: { ...endpoint, id: endpoint.endpoint_id } as Pick<Endpoint, "id" | "url" | "status"> }),
  });
  return data ? recordEvent(row, event, data) : row;
}

/** Converts a row to the appointment's fields in bodies of public events. */
const toSnapshot = (row: AppointmentRow) =>
  appointmentSnapshot.pick({
    ...(appointmentSnapshot.fromRow(row) as ReturnType<typeof appointmentSnapshot.pick>),
    resources: listPartnerResources(row.resources),
    revision: Number(row.revision),
  });

/** Records an event of an appointment that has a row. Omits fixture events, because their sandbox reset has one row. */
function recordAppointmentEvent(
  row: PublicEventRow | undefined,
  event: RecordedEventOf<AppointmentEventType>,
  findRows: FindRows,
): PublicEventRow | undefined {
  const { before, after } = findRows(appointments);
  const isFixture = event.stream.startsWith(toStreamName(sandboxStreams, ""));
  if (isFixture || !after) return row;
  if (isConsequence(event)) return recordEvent(row, event, undefined, after);
  const data = toPublicData(event, { after: toSnapshot(after), ...(before && { before: toSnapshot(before) }) });
  return recordEvent(row, event, data, after);
}

/** Returns true if partners get another event about the same change, or no event because the change is an import. */
function isConsequence({ data }: RecordedEventOf<AppointmentEventType>): boolean {
  return "isConsequence" in data && data.isConsequence === true;
}

const recordAppointmentEvents = Object.fromEntries(
  Object.keys(appointmentStreams.events).map((type) => [type, recordAppointmentEvent]),
) as Record<AppointmentEventType, typeof recordAppointmentEvent>;

/**
 * Public events, with their data at the time of the event. All other events that change appointments have rows with the
 * type null. A sandbox reset keeps the rows, so that positions in the feed remain valid.
 */
export const publicEvents = defineReadModel({
  table: "public_event",
  columns,
  nullable,
  primaryKey: ["event_id"],
  indexes: [
    { columns: "clinic_id, position", where: "type IS NOT NULL" },
    { columns: "position", where: "type IS NOT NULL" },
    { columns: "installation_id, position", where: "installation_id IS NOT NULL" },
    { columns: "appointment_id", where: "type IS NOT NULL" },
  ],
  references: [appointments, webhookEndpoints],
  key: (event: SourceEvent) => [event.id],
  on: {
    ...recordAppointmentEvents,
    InstallationApproved: recordAccessEvent,
    InstallationNarrowed: recordAccessEvent,
    InstallationRevoked: recordAccessEvent,
    AnimalLinked: recordAccessEvent,
    AnimalLinkWithdrawn: recordAccessEvent,
    WebhookEndpointTested: recordEndpointEvent,
    WebhookEndpointFailureReported: recordEndpointEvent,
    WebhookEndpointDisabled: recordEndpointEvent,
    WebhookSecretExpiryReported: recordEndpointEvent,
    SandboxReset: recordAccessEvent,
    CustomerDataErased: (row, event) => recordEvent(row, event, undefined),
  },
});
