import { appointmentStreams } from "../../shared/domain/events/appointment.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { sandboxStreams } from "../../shared/domain/events/sandbox.ts";
import { getPublicType } from "../../shared/partner-api/public-event.ts";
import { defineReadModel, type RecordedEventOf } from "../engine/read-model.ts";
import { appointments } from "./appointments.ts";

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

type PublicEventRow = {
  event_id: string;
  position: string;
  type: string | null;
  clinic_id: string;
  branch_id: string | null;
  animal_id: string | null;
  installation_id: string | null;
  endpoint_id: string | null;
  stream: string;
  revision: string;
};

/** A test has a public id of its own. */
function getEventId(event: SourceEvent): string {
  return event.type === "WebhookEndpointTested" ? event.data.testId : event.id;
}

function getInstallationId({ type, data }: SourceEvent): string | null {
  if (type === "AnimalLinked" || type === "AnimalLinkWithdrawn")
    return deriveInstallationId(data.applicationId, data.clinicId);
  return "installationId" in data ? data.installationId : null;
}

/** A replayed stream contains events that already have a row, and rows never change. */
function recordEvent(
  row: PublicEventRow | undefined,
  event: SourceEvent,
  appointment?: { clinic_id: string; branch_id: string; animal_id: string | null },
): PublicEventRow | undefined {
  const clinicId =
    appointment?.clinic_id ?? ("clinicId" in event.data ? event.data.clinicId : null) ?? event.metadata.clinicId;
  if (row || clinicId === null) return row;
  return {
    event_id: getEventId(event),
    position: String(event.position),
    type: getPublicType(event.type),
    clinic_id: clinicId,
    branch_id: appointment?.branch_id ?? null,
    animal_id: appointment?.animal_id ?? null,
    installation_id: getInstallationId(event),
    endpoint_id: "endpointId" in event.data ? event.data.endpointId : null,
    stream: event.stream,
    revision: String(event.revision),
  };
}

/** The withdrawal of a code that was not redeemed ends no link. */
function recordWithdrawal(row: PublicEventRow | undefined, event: RecordedEventOf<"AnimalLinkWithdrawn">) {
  return event.data.linkId === null ? row : recordEvent(row, event);
}

/** A fixture of a sandbox is part of the reset, which has a row. Without its appointment, an event concerns nobody. */
function recordAppointmentEvent(
  row: PublicEventRow | undefined,
  event: RecordedEventOf<AppointmentEventType>,
  appointment?: { clinic_id: string; branch_id: string; animal_id: string | null },
): PublicEventRow | undefined {
  const isFixture = event.stream.startsWith(toStreamName(sandboxStreams, ""));
  return isFixture || !appointment ? row : recordEvent(row, event, appointment);
}

const recordAppointmentEvents = Object.fromEntries(
  Object.keys(appointmentStreams.events).map((type) => [type, recordAppointmentEvent]),
) as Record<AppointmentEventType, typeof recordAppointmentEvent>;

/**
 * Events that partners read in the order of the log, without their bodies, and all other events that change
 * appointments. The rows stay when a sandbox is reset, so that positions in the feed remain valid.
 */
export const publicEvents = defineReadModel({
  table: "public_event",
  columns: {
    /** Id that partners see. */
    event_id: "uuid",
    position: "bigint",
    /** Null if partners do not receive the event. The row then only confirms a position in the list of changes. */
    type: "text",
    clinic_id: "uuid",
    branch_id: "uuid",
    animal_id: "uuid",
    /** The only installation that receives the event; null for all installations of the clinic. */
    installation_id: "uuid",
    /** Endpoint that the event is about. Only its application receives the event. */
    endpoint_id: "uuid",
    stream: "text",
    revision: "bigint",
  },
  nullable: ["type", "branch_id", "animal_id", "installation_id", "endpoint_id"],
  primaryKey: ["event_id"],
  indexes: [
    { columns: "clinic_id, position", where: "type IS NOT NULL" },
    { columns: "position", where: "type IS NOT NULL" },
    { columns: "installation_id, position", where: "installation_id IS NOT NULL" },
  ],
  references: appointments,
  key: (event: SourceEvent) => [getEventId(event)],
  on: {
    ...recordAppointmentEvents,
    InstallationApproved: recordEvent,
    InstallationNarrowed: recordEvent,
    InstallationRevoked: recordEvent,
    AnimalLinked: recordEvent,
    AnimalLinkWithdrawn: recordWithdrawal,
    WebhookEndpointTested: recordEvent,
    WebhookEndpointFailureReported: recordEvent,
    WebhookEndpointDisabled: recordEvent,
    WebhookSecretExpiryReported: recordEvent,
    SandboxReset: recordEvent,
    CustomerDataErased: recordEvent,
  },
});
