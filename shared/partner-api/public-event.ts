import type { z } from "zod";
import { type AppointmentEvent, appointmentStreams } from "../domain/events/appointment.ts";
import type { CatalogEventType } from "../domain/events/catalog.ts";
import type { deliveredEventType } from "../domain/events/partner.ts";

/** Types of events in the feed that are not sent to webhook endpoints. */
type FeedEventType = "animal_link.created" | "sandbox.reset";

/** Type of an event that partners receive. */
export type PublicEventType = z.infer<typeof deliveredEventType> | FeedEventType;

/**
 * Appointment events that are not sent to partners. Partners do not see an appointment's resources. For an imported
 * appointment, partners receive only the changes after the import.
 */
const UNSENT_EVENT_TYPES: readonly CatalogEventType[] = [
  "AppointmentImported",
  "ResourceAllocated",
  "ResourceReleased",
  "AppointmentDataErased",
];

const PUBLIC_TYPES = new Map<CatalogEventType, PublicEventType>([
  ...(Object.keys(appointmentStreams.events) as AppointmentEvent["type"][])
    .filter((type) => !UNSENT_EVENT_TYPES.includes(type))
    .map((type) => [type, type === "AppointmentRequested" ? "appointment.created" : "appointment.updated"] as const),
  ["WebhookEndpointTested", "endpoint.test"],
  ["WebhookEndpointFailureReported", "endpoint.failing"],
  ["WebhookEndpointDisabled", "endpoint.disabled"],
  ["WebhookSecretExpiryReported", "secret.expiring"],
  ["InstallationApproved", "installation.approved"],
  ["InstallationNarrowed", "installation.access_changed"],
  ["InstallationRevoked", "installation.revoked"],
  ["AnimalLinked", "animal_link.created"],
  ["AnimalLinkWithdrawn", "animal_link.withdrawn"],
  ["SandboxReset", "sandbox.reset"],
]);

/** Returns the type under which partners receive events of a type. Null if they do not receive them. */
export function getPublicType(type: CatalogEventType): PublicEventType | null {
  return PUBLIC_TYPES.get(type) ?? null;
}
