import { DomainError } from "../domain-error.ts";
import { appointmentStreams, holdStreams, queueTicketStreams } from "./appointment.ts";
import { auditAccessStreams, auditorStreams, auditTreeStreams } from "./audit.ts";
import { type Category, type EventOf, toStreamName } from "./category.ts";
import { clinicStreams, resourceStreams, serviceStreams } from "./clinic.ts";
import { animalConsentStreams, animalLinkCodeStreams } from "./consent.ts";
import type { Environment } from "./fields.ts";
import { operatorStreams } from "./operator.ts";
import {
  installationStreams,
  partnerApplicationStreams,
  webhookEndpointPlacesStreams,
  webhookEndpointStreams,
  webhookReplayStreams,
} from "./partner.ts";
import { animalStreams, customerStreams, membershipStreams, portalUserStreams, staffStreams } from "./people.ts";
import { quarantineStreams } from "./quarantine.ts";
import { sandboxStreams } from "./sandbox.ts";
import { resourceDayStreams } from "./scheduling.ts";

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
  resourceDayStreams,
  queueTicketStreams,
  partnerApplicationStreams,
  installationStreams,
  webhookEndpointStreams,
  webhookEndpointPlacesStreams,
  webhookReplayStreams,
  sandboxStreams,
  operatorStreams,
  auditorStreams,
  auditAccessStreams,
  auditTreeStreams,
  quarantineStreams,
] as const;

/** Union of all events, discriminated by `type`. Each event type belongs to exactly one category. */
export type CatalogEvent = EventOf<(typeof categories)[number]>;
export type CatalogEventType = CatalogEvent["type"];

const categoriesByName = new Map<string, Category>(categories.map((category) => [category.name, category]));

function findCategory(stream: string): Category | undefined {
  return categoriesByName.get(stream.slice(0, Math.max(0, stream.indexOf("-"))));
}

/**
 * Returns the event types that determine the whole state of a stream, so that earlier events are not needed. Empty if
 * the state depends on all events.
 */
export function getCompleteTypes(stream: string): readonly string[] {
  const category = findCategory(stream);
  if (category?.bound.by === "completeEvents") return Object.keys(category.events);
  return category && "completeTypes" in category.bound ? category.bound.completeTypes : [];
}

/**
 * Returns true if all events of a stream belong to the same clinic or to no clinic. False for portal users, who may
 * select any clinic.
 */
export function belongsToOneClinic(stream: string): boolean {
  return !stream.startsWith(toStreamName(portalUserStreams, ""));
}

const eventTypes: ReadonlySet<string> = new Set(categories.flatMap(({ events }) => Object.keys(events)));

/** Returns true if this release knows an event type. */
export function isCatalogType(type: string): boolean {
  return eventTypes.has(type);
}

/** Events to append, with the environment of their clinic. */
type NewEvents = readonly { event: { type: string }; metadata: { environment: Environment | null } }[];

/** Returns the length of a stream after an append, divided by its maximum; 0 if the stream has no maximum. */
export function getLengthShare(stream: string, expectedRevision: bigint, newEvents: NewEvents): number {
  const bound = findCategory(stream)?.bound;
  if (bound?.by !== "maxChanges") return 0;
  const length = Number(expectedRevision) + 1 + newEvents.length;
  return length / bound.maxChanges[newEvents[0]?.metadata.environment ?? "production"];
}

/**
 * Refuses events that would exceed the maximum length of their stream. Events that end an object are always permitted,
 * so that an object with many changes can still be ended.
 *
 * @throws {DomainError} `too_many_changes`
 */
export function refuseTooManyChanges(stream: string, expectedRevision: bigint, newEvents: NewEvents): void {
  const { name, bound } = findCategory(stream) ?? {};
  if (bound?.by !== "maxChanges" || getLengthShare(stream, expectedRevision, newEvents) <= 1) return;
  if (newEvents.every(({ event }) => [...bound.except, ...bound.completeTypes].includes(event.type))) return;
  throw new DomainError("too_many_changes", `the ${name} was changed too often; only changes that end it are possible`);
}

const MAX_STREAM_NAME_LENGTH = 300;

/**
 * Returns true if a stream belongs to a category of the catalog, and its name has at most 300 characters. Other
 * programs may write to the same log, and Postgres cannot index very long names.
 */
export function isCatalogStream(stream: string): boolean {
  return findCategory(stream) !== undefined && stream.length <= MAX_STREAM_NAME_LENGTH;
}
