import { appointmentStreams, holdStreams, queueTicketStreams } from "./appointment.ts";
import { auditAccessStreams, auditorStreams, auditTreeStreams } from "./audit.ts";
import { type EventOf, toStreamName } from "./category.ts";
import { clinicStreams, resourceStreams, serviceStreams } from "./clinic.ts";
import { animalConsentStreams, animalLinkCodeStreams } from "./consent.ts";
import {
  installationStreams,
  partnerApplicationStreams,
  webhookDeliveryStreams,
  webhookEndpointPlacesStreams,
  webhookEndpointStreams,
  webhookReplayStreams,
} from "./partner.ts";
import { animalStreams, customerStreams, membershipStreams, portalUserStreams, staffStreams } from "./people.ts";
import { quarantineStreams } from "./quarantine.ts";
import { sandboxStreams } from "./sandbox.ts";

/** Categories of all streams that this project writes. */
export const categories = [
  clinicStreams,
  serviceStreams,
  resourceStreams,
  membershipStreams,
  staffStreams,
  portalUserStreams,
  customerStreams,
  animalStreams,
  animalConsentStreams,
  animalLinkCodeStreams,
  appointmentStreams,
  holdStreams,
  queueTicketStreams,
  partnerApplicationStreams,
  installationStreams,
  webhookEndpointStreams,
  webhookEndpointPlacesStreams,
  webhookDeliveryStreams,
  webhookReplayStreams,
  sandboxStreams,
  auditorStreams,
  auditAccessStreams,
  auditTreeStreams,
  quarantineStreams,
] as const;

/** Union of all events, discriminated by `type`. Each event type belongs to exactly one category. */
export type CatalogEvent = EventOf<(typeof categories)[number]>;
export type CatalogEventType = CatalogEvent["type"];

/** By category: types of events after which the state of a stream does not depend on earlier events. */
const completeTypes: Readonly<Record<string, readonly CatalogEventType[]>> = {
  [animalConsentStreams.name]: ["AnimalConsentSummarized"],
  [installationStreams.name]: ["InstallationRequested", "InstallationApproved"],
  [webhookEndpointStreams.name]: ["WebhookEndpointRegistered", "WebhookEndpointSummarized"],
  [webhookDeliveryStreams.name]: [
    "WebhookDeliveryFailed",
    "WebhookDeliverySkipped",
    "WebhookDeliveryReplayRequested",
    "WebhookDeliveryExpired",
  ],
};

/**
 * Returns the types of a stream's events after which its state does not depend on earlier events. Empty if the state
 * depends on all events.
 */
export function getCompleteTypes(stream: string): readonly string[] {
  return completeTypes[stream.slice(0, Math.max(0, stream.indexOf("-")))] ?? [];
}

/** Returns true if all events of a stream belong to the same clinic, or to none. A portal user may select any clinic. */
export function belongsToOneClinic(stream: string): boolean {
  return !stream.startsWith(toStreamName(portalUserStreams, ""));
}

const eventTypes: ReadonlySet<string> = new Set(categories.flatMap(({ events }) => Object.keys(events)));

/** Returns true if this release knows an event type. */
export function isCatalogType(type: string): boolean {
  return eventTypes.has(type);
}

const categoryNames = new Set<string>(categories.map(({ name }) => name));

const MAX_STREAM_NAME_LENGTH = 300;

/**
 * Returns true if a stream belongs to a category of the catalog. Streams of other programs may be in the same log. The
 * service writes no longer names, and Postgres cannot store very long ones in an index.
 */
export function isCatalogStream(stream: string): boolean {
  const separatorIndex = stream.indexOf("-");
  const hasCategory = separatorIndex > 0 && categoryNames.has(stream.slice(0, separatorIndex));
  return hasCategory && stream.length <= MAX_STREAM_NAME_LENGTH;
}
