import { uuid } from "../../../shared/domain/events/fields.ts";
import { clinicsOf } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";

/** Whether an event concerns a subject; to be asked of every event of the log, in its order. */
export type Concerns = (event: AuditEvent) => boolean;

/** More is not remembered; 500,000 ids are about 60 MB. */
const MAX_FOLLOWED_IDS = 500_000;

/** A queue ticket may name nothing but its appointment. */
const APPOINTMENTS = { AppointmentRequested: "appointmentId", AppointmentImported: "appointmentId" };

/** What is asked for is more than can be followed at once. */
export class TooManyRelatedEvents extends Error {
  override readonly name = "TooManyRelatedEvents";
}

/**
 * What concerns a subject, told from the log alone:
 *
 * - a clinic: every event that says it is the clinic's.
 * - a correlation id: every event of that request, and what those caused, over all steps.
 * - an auditor: the auditor's own stream, and every access of the auditor.
 * - an appointment, a customer, an animal or an application: events that carry its id in their data; the rest of a
 *   stream that begins with such an event (so the whole life of a customer's appointment); what such events caused, over
 *   all steps; and the deliveries that tell of them. Appointments and a customer's animals are followed by
 *   their ids too, and so are an application's installations and
 *   endpoints; what an application did itself concerns it.
 *
 * Who looked at something is told under the auditor and the request, not under what was looked at.
 *
 * @param most ids that are remembered; {@link TooManyRelatedEvents} is thrown beyond
 */
export function createRelatedEvents({ kind, id }: Subject, most = MAX_FOLLOWED_IDS): Concerns {
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

/** Those that the test picks, and what they caused. */
function following(most: number, picks: (event: AuditEvent) => boolean): Concerns {
  const known = new Set<string>();
  return (event) => {
    if (!picks(event) && !known.has(event.causationId ?? "")) return false;
    remember(known, event.id, most);
    return true;
  };
}

interface Ties {
  /** Picks events besides those that carry an id. */
  also?: (event: AuditEvent) => boolean;
  /** By event type, the field whose id is followed from then on too. */
  alsoIds?: Record<string, string>;
}

function followingStreams(id: string, most: number, { also, alsoIds = {} }: Ties): Concerns {
  const ids = new Set([id]);
  const streams = new Set<string>();
  return following(most, (event) => {
    const carries = mentions(event.data, ids);
    const told = streams.has(event.stream) || streams.has(sourceStream(event) ?? "");
    if (!carries && !told && !also?.(event)) return false;
    if ((carries && startsLife(event)) || (told && isDelivery(event))) remember(streams, event.stream, most);
    const more = alsoIds[event.type];
    const tied = more === undefined ? undefined : member(event.data, more);
    if (carries && typeof tied === "string") remember(ids, tied.toLowerCase(), most);
    return true;
  });
}

/** A reset holds the facts of many things, and is the beginning of none. */
function startsLife({ revision, type }: AuditEvent): boolean {
  return revision === 0 && type !== "SandboxReset";
}

function isDelivery({ stream }: AuditEvent): boolean {
  return stream.startsWith("webhookDelivery-");
}

/** The stream of the event that a delivery tells of. */
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
    throw new TooManyRelatedEvents(`it concerns more than ${most} events: ask for something narrower`);
  }
}

/** What can be asked for as a whole, and the beginnings of the names of the streams that can hold something of it. */
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

/** One thing that everything is asked for about. */
export interface Subject {
  kind: SubjectKind;
  id: string;
}

/** The streams among which the log looks, undefined for all of them: the server leaves the others out. */
export function prefixesFor(kind: SubjectKind): readonly string[] | undefined {
  return reach[kind];
}

/** Any RFC 9562 text form, in lower case. */
export const subjectId = uuid;
