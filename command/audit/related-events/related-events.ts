import { uuid } from "../../../shared/domain/events/fields.ts";
import { clinicsOf } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";

/** Returns whether an event is related to the subject. Must be called for all events of the log, in order. */
export type IsRelated = (event: AuditEvent) => boolean;

/** Maximum number of ids in memory, about 60 MB. */
const MAX_FOLLOWED_IDS = 500_000;

/** Appointments are followed by id, because a queue ticket may name only its appointment. */
const APPOINTMENTS = { AppointmentRequested: "appointmentId", AppointmentImported: "appointmentId" };

/** More events are related to the subject than can be followed. */
export class TooManyRelatedEventsError extends Error {
  override readonly name = "TooManyRelatedEventsError";
}

/**
 * Finds the events related to a subject in one pass over the log:
 *
 * - clinic: every event that names the clinic.
 * - correlation id: every event of that request, and all direct and indirect consequences.
 * - auditor: the auditor's stream, and every access of the auditor.
 * - appointment, customer, animal or application: events with its id in their data; the rest of a stream that starts
 *   with such an event; all direct and indirect consequences; and the deliveries of these events. Appointments, a
 *   customer's animals, and an application's installations and endpoints are followed by their own ids too. An
 *   application is also related to its own actions.
 *
 * An access is related to the auditor and the request, not to the viewed records.
 *
 * @param most maximum number of ids; {@link TooManyRelatedEventsError} is thrown beyond it
 */
export function createRelatedEventsFinder({ kind, id }: Subject, most = MAX_FOLLOWED_IDS): IsRelated {
  switch (kind) {
    case "clinic":
      return (event) => clinicsOf(event).includes(id);
    case "auditor":
      return (event) =>
        event.stream === `auditor-${id}` || (event.actor?.type === "auditor" && event.actor.id === id);
    case "correlation":
      return following(most, (event) => event.correlationId === id);
    case "application":
      return followingStreams(id, most, {
        also: (event) => event.actor?.type === "application" && event.actor.id === id,
        alsoIds: {
          ...APPOINTMENTS,
          InstallationRequested: "installationId",
          WebhookEndpointRegistered: "endpointId",
        },
      });
    case "customer":
      return followingStreams(id, most, {
        alsoIds: { ...APPOINTMENTS, AnimalRegistered: "animalId" },
      });
    default:
      return followingStreams(id, most, { alsoIds: APPOINTMENTS });
  }
}

/** Follows the events that a predicate selects, and their consequences. */
function following(most: number, picks: (event: AuditEvent) => boolean): IsRelated {
  const known = new Set<string>();
  return (event) => {
    if (!picks(event) && !known.has(event.causationId ?? "")) return false;
    remember(known, event.id, most);
    return true;
  };
}

interface Ties {
  /** Selects further events. */
  also?: (event: AuditEvent) => boolean;
  /** By event type, the field with a further id to follow. */
  alsoIds?: Record<string, string>;
}

function followingStreams(id: string, most: number, { also, alsoIds = {} }: Ties): IsRelated {
  const ids = new Set([id]);
  const streams = new Set<string>();
  return following(most, (event) => {
    const carries = mentions(event.data, ids);
    const isFollowed = streams.has(event.stream) || streams.has(sourceStream(event) ?? "");
    if (!carries && !isFollowed && !also?.(event)) return false;
    if ((carries && startsLife(event)) || (isFollowed && isDelivery(event)))
      remember(streams, event.stream, most);
    const more = alsoIds[event.type];
    const tied = more === undefined ? undefined : member(event.data, more);
    if (carries && typeof tied === "string") remember(ids, tied.toLowerCase(), most);
    return true;
  });
}

/** A reset contains facts about many objects and starts the life of none of them. */
function startsLife({ revision, type }: AuditEvent): boolean {
  return revision === 0 && type !== "SandboxReset";
}

function isDelivery({ stream }: AuditEvent): boolean {
  return stream.startsWith("webhookDelivery-");
}

/** Returns the stream of the delivered event. */
function sourceStream({ data }: AuditEvent): string | undefined {
  const stream = member(member(data, "source"), "stream");
  return typeof stream === "string" ? stream : undefined;
}

function mentions(value: unknown, ids: ReadonlySet<string>): boolean {
  if (typeof value === "string") return value.length === 36 && ids.has(value.toLowerCase());
  if (typeof value !== "object" || value === null) return false;
  return Object.values(value).some((inner) => mentions(inner, ids));
}

function member(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

function remember(known: Set<string>, id: string, most: number): void {
  known.add(id);
  if (known.size > most) {
    throw new TooManyRelatedEventsError(`more than ${most} related events; choose a narrower subject`);
  }
}

/** Subject kinds, each with the prefixes of the streams that can contain related events. */
const reach = {
  appointment: ["appointment-", "queueTicket-", "webhookDelivery-", "webhookEndpoint-", "sandbox-"],
  customer: [
    ...["customer-", "animal-", "appointment-", "queueTicket-"],
    ...["webhookDelivery-", "webhookEndpoint-", "sandbox-"],
  ],
  animal: [
    ...["animal-", "appointment-", "queueTicket-"],
    ...["webhookDelivery-", "webhookEndpoint-", "sandbox-"],
  ],
  clinic: undefined,
  application: [
    ...["partnerApplication-", "installation-", "webhookEndpoint-", "webhookEndpointPlaces-"],
    ...["webhookDelivery-", "appointment-", "sandbox-", "clinic-"],
  ],
  correlation: undefined,
  auditor: ["auditor-", "auditAccess-"],
} as const satisfies Record<string, readonly string[] | undefined>;

export type SubjectKind = keyof typeof reach;
export const subjectKinds = Object.keys(reach) as SubjectKind[];

/** An object whose related events are requested. */
export interface Subject {
  kind: SubjectKind;
  id: string;
}

/** Returns the stream prefixes to scan; undefined for all streams. The server omits other streams. */
export function prefixesFor(kind: SubjectKind): readonly string[] | undefined {
  return reach[kind];
}

/** A UUID in any RFC 9562 text form, converted to lower case. */
export const subjectId = uuid;
