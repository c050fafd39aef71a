import { getClinicIds } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";

/** Returns true if an event is related to the subject. Must be called for all events of the log, in log order. */
type RelatedEventFilter = (event: AuditEvent) => boolean;

const MAX_FOLLOWED_IDS = 500_000;

/**
 * Field with the new appointment's id, by event type. Appointment ids are followed, because the events of a queue
 * ticket may name only the appointment.
 */
const APPOINTMENT_ID_FIELDS = { AppointmentRequested: "appointmentId", AppointmentImported: "appointmentId" };

export class TooManyRelatedEventsError extends Error {
  override readonly name = "TooManyRelatedEventsError";
}

/**
 * Creates a predicate that finds the events related to a subject in one pass over the log:
 *
 * - Clinic: all events that name the clinic.
 * - Correlation id: all events of the request, and the direct and indirect consequences of these events.
 * - Auditor: the events of the auditor's stream, and all accesses by the auditor.
 * - Appointment, customer, animal or application: all events whose data contains the id, and all later events of the
 *   streams that start with such an event. The webhook deliveries of all these events are also related, and so are all
 *   direct and indirect consequences of the events. The ids of appointments, of a customer's animals, and of an
 *   application's installations and endpoints are followed in the same way. Events whose actor is the application are
 *   related to the application.
 *
 * An access is related to the auditor and to the request, not to the records that the auditor viewed.
 *
 * @param maxIds maximum number of ids; beyond it, the predicate throws {@link TooManyRelatedEventsError}
 */
export function createRelatedEventFilter({ kind, id }: Subject, maxIds = MAX_FOLLOWED_IDS): RelatedEventFilter {
  switch (kind) {
    case "clinic":
      return (event) => getClinicIds(event).includes(id);
    case "auditor":
      return (event) => event.stream === `auditor-${id}` || hasActor(event, "auditor", id);
    case "correlation":
      return createConsequenceFilter(maxIds, (event) => event.correlationId === id);
    case "application":
      return createStreamFilter(
        id,
        maxIds,
        {
          ...APPOINTMENT_ID_FIELDS,
          InstallationRequested: "installationId",
          WebhookEndpointRegistered: "endpointId",
        },
        (event) => hasActor(event, "application", id),
      );
    case "customer":
      return createStreamFilter(id, maxIds, { ...APPOINTMENT_ID_FIELDS, AnimalRegistered: "animalId" });
    default:
      return createStreamFilter(id, maxIds, APPOINTMENT_ID_FIELDS);
  }
}

function hasActor({ actor }: AuditEvent, type: string, id: string): boolean {
  return actor?.type === type && actor.id === id;
}

/** Creates a predicate for the events that another predicate selects, and for the consequences of these events. */
function createConsequenceFilter(maxIds: number, isSelected: (event: AuditEvent) => boolean): RelatedEventFilter {
  const eventIds = new Set<string>();
  return (event) => {
    if (!isSelected(event) && !eventIds.has(event.causationId ?? "")) return false;
    addWithinLimit(eventIds, event.id, maxIds);
    return true;
  };
}

/**
 * Creates a predicate that selects all events that contain a followed id. If such an event starts a stream, the later
 * events of the stream and the webhook deliveries of its events are selected too. All consequences of selected events
 * are also selected.
 *
 * @param idFields field that contains a further id to follow, by event type
 */
function createStreamFilter(
  id: string,
  maxIds: number,
  idFields: Record<string, string>,
  isAlsoRelated: (event: AuditEvent) => boolean = () => false,
): RelatedEventFilter {
  const followedIds = new Set([id]);
  const streams = new Set<string>();
  return createConsequenceFilter(maxIds, (event) => {
    const hasFollowedId = containsAnyId(event.data, followedIds);
    const isFollowed = streams.has(event.stream) || streams.has(getSourceStream(event) ?? "");
    if (!hasFollowedId && !isFollowed && !isAlsoRelated(event)) return false;
    const isFollowedDelivery = isFollowed && event.stream.startsWith("webhookDelivery-");
    if ((hasFollowedId && startsObject(event)) || isFollowedDelivery) addWithinLimit(streams, event.stream, maxIds);
    const idField = idFields[event.type];
    const furtherId = idField === undefined ? undefined : getMember(event.data, idField);
    if (hasFollowedId && typeof furtherId === "string") addWithinLimit(followedIds, furtherId.toLowerCase(), maxIds);
    return true;
  });
}

/**
 * Returns true for the first event of an object. A sandbox reset names many objects, but is not the first event of any
 * object. The consents of an animal concern several applications, and each event names the animal and the application.
 */
export function startsObject({ revision, type, stream }: AuditEvent): boolean {
  return revision === 0 && type !== "SandboxReset" && !stream.startsWith("animalConsent-");
}

/**
 * Returns the stream of the event that a webhook delivery contains. Returns undefined for an event that does not belong
 * to a webhook delivery.
 */
function getSourceStream({ data }: AuditEvent): string | undefined {
  const stream = getMember(getMember(data, "source"), "stream");
  return typeof stream === "string" ? stream : undefined;
}

function containsAnyId(value: unknown, ids: ReadonlySet<string>): boolean {
  if (typeof value === "string") return value.length === 36 && ids.has(value.toLowerCase());
  if (typeof value !== "object" || value === null) return false;
  return Object.values(value).some((member) => containsAnyId(member, ids));
}

function getMember(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

function addWithinLimit(ids: Set<string>, id: string, maxIds: number): void {
  ids.add(id);
  if (ids.size > maxIds) {
    throw new TooManyRelatedEventsError(`more than ${maxIds} related events; choose a narrower subject`);
  }
}

const ANIMAL_PREFIXES = ["animal-", "animalConsent-", "animalLinkCode-"];
const APPOINTMENT_PREFIXES = ["appointment-", "queueTicket-", "webhookDelivery-", "webhookEndpoint-", "sandbox-"];

/** Prefixes of the streams that can contain related events, by kind of subject. Undefined for all streams. */
const STREAM_PREFIXES = {
  appointment: APPOINTMENT_PREFIXES,
  customer: ["customer-", ...ANIMAL_PREFIXES, ...APPOINTMENT_PREFIXES],
  animal: [...ANIMAL_PREFIXES, ...APPOINTMENT_PREFIXES],
  clinic: undefined,
  application: [
    ...["partnerApplication-", "installation-", "webhookEndpoint-", "webhookEndpointPlaces-"],
    ...["webhookDelivery-", "webhookReplay-", "appointment-", "sandbox-", "clinic-", "animalConsent-"],
  ],
  correlation: undefined,
  auditor: ["auditor-", "auditAccess-"],
} as const satisfies Record<string, readonly string[] | undefined>;

export type SubjectKind = keyof typeof STREAM_PREFIXES;
export const subjectKinds = Object.keys(STREAM_PREFIXES) as SubjectKind[];

export interface Subject {
  kind: SubjectKind;
  id: string;
}

/** Returns the stream prefixes to scan for related events; undefined for all streams. */
export function getStreamPrefixes(kind: SubjectKind): readonly string[] | undefined {
  return STREAM_PREFIXES[kind];
}
