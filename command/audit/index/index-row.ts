import { getClinicIds } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { isLeaf, toLeaf } from "../tree/leaves.ts";
import { isUuid, SHARED_ACCESS_KEY, toKey, toPurposeKey } from "./index-keys.ts";

/** Facts that an index row inherits from earlier events. */
export interface Inheritance {
  /** Subjects and clinics of an object's first event, by the key of the object. */
  objects: ReadonlyMap<string, Pick<IndexRow, "subjects" | "clinics">>;
  /** Subjects and origins of the event that caused this event, by the id of the causing event. */
  causes: ReadonlyMap<string, Pick<IndexRow, "subjects" | "origins">>;
}

/** The part of a row that depends only on its event. */
export interface EventFacts {
  event: AuditEvent;
  eventId: string;
  causationId: string | null;
  clinics: string[];
  /** UUIDs in the data, except clinics and repeated reservations. Empty for an access. */
  ids: string[];
  /** Ids of objects in the data, such as appointments. Other events inherit these ids as subjects. */
  objectIds: string[];
  origins: string[];
  /** Undefined unless the event records an access. */
  access: AccessFacts | undefined;
  /** Keys of the objects from whose first events the row inherits subjects. */
  objectKeys: string[];
  /** Keys of the objects whose first event this is. */
  startedKeys: string[];
  /** Null if the event is not a leaf of the tree. */
  leafHash: Buffer | null;
}

/** A row of the audit index. Ids are keys, as {@link toKey} returns them. */
export interface IndexRow {
  facts: EventFacts;
  /**
   * Ids of the objects that the event concerns, from its own data or inherited. Omits ids in the data that no other
   * event inherits.
   */
  subjects: string[];
  /** Keys of the requests and the actors of this event and its causes. */
  origins: string[];
  clinics: string[];
  /** Keys under which the event is found. */
  keys: string[];
}

interface AccessFacts {
  /** Ids of the records that the query names or the response contains. */
  ids: string[];
  /** Keys of the streams that the query names. */
  streamKeys: string[];
  /** Keys under which the access is found as one that possibly concerned a record. */
  possibleKeys: string[];
}

/** Maximum number of ids, and of subjects, that the index stores for one event. No access has more ids. */
const MAX_SUBJECTS = 2_500;

/** Fields of event data that contain ids of objects. Other events inherit these ids as subjects. */
const OBJECT_FIELDS = new Set([
  ...["appointmentId", "customerId", "animalId", "applicationId", "installationId", "endpointId"],
  // A reservation names its appointment, a quota its installation, and a clinic the application of the sandbox.
  ...["holderId", "ownerId", "sandboxOf"],
]);

/** Prefixes of stream names, for objects that other events name only by id. */
const OBJECT_CATEGORIES = ["appointment-", "animal-", "installation-", "webhookEndpoint-"];

/**
 * Derives the facts that the index needs from an event. All releases must derive the same facts. The rules therefore
 * depend only on the event, not on the event catalog, and must never change.
 */
export function toEventFacts(event: AuditEvent): EventFacts {
  const { actor, correlationId, causationId, stream, revision } = event;
  const clinics = [...new Set(getClinicIds(event).map(toKey))];
  const access = isAccess(event) ? toAccessFacts(event.data) : undefined;
  const data = access ? undefined : withoutCopies(event);
  const ids = listUuids(data).filter((id) => !clinics.includes(id));
  const objectIds = listUuids(data, OBJECT_FIELDS);
  const origins = [
    ...(correlationId === null ? [] : [toPurposeKey("correlation", correlationId)]),
    ...(actor && (actor.type === "application" || actor.type === "auditor") ? [toKey(actor.id)] : []),
  ];
  const streamKey = toPurposeKey("stream", stream);
  return {
    event,
    eventId: toKey(event.id),
    causationId: causationId === null || causationId === correlationId ? null : toKey(causationId),
    clinics,
    ids,
    objectIds,
    origins,
    access,
    objectKeys: access ? [...access.ids, ...access.streamKeys] : [...(revision > 0 ? [streamKey] : []), ...objectIds],
    startedKeys: startsObject(event) ? [streamKey, ...listObjectIds(stream)] : [],
    leafHash: isLeaf(event) ? toLeaf(event).hash : null,
  };
}

/** Adds inherited facts to an event's own facts. An event inherits the subjects of the event that caused it. */
export function toIndexRow(facts: EventFacts, { objects, causes }: Inheritance): IndexRow {
  const { clinics, access, objectKeys, causationId } = facts;
  const cause = causationId === null ? undefined : causes.get(causationId);
  const inherited = objectKeys.flatMap((key) => objects.get(key) ?? []);
  const subjects = limit(
    [...facts.objectIds, ...(access ? [] : inherited.flatMap((object) => object.subjects))],
    cause?.subjects,
  );
  const origins = limit(facts.origins, cause?.origins);
  const accessedIds = access
    ? limit([...access.ids, ...inherited.flatMap((object) => [...object.subjects, ...object.clinics])])
    : [];
  const keys = [
    ...clinics.map((id) => toPurposeKey("clinic", id)),
    ...facts.ids,
    ...subjects,
    ...origins,
    ...accessedIds.map((id) => toPurposeKey("accessed", id)),
    ...(access?.possibleKeys ?? []),
  ];
  return { facts, subjects, origins, clinics, keys: [...new Set(keys)] };
}

function limit(own: readonly string[], inherited: readonly string[] = []): string[] {
  return [...new Set([...own, ...inherited])].slice(0, MAX_SUBJECTS);
}

/** Removes the open reservations from a `resourceDay` event. The event repeats all of them, but concerns only one. */
function withoutCopies({ stream, data }: AuditEvent): unknown {
  return stream.startsWith("resourceDay-") ? { ...toMembers(data), reservations: null } : data;
}

/**
 * Returns true for the first event of an object, from which later events inherit subjects. Excludes sandbox resets,
 * which name many objects, and animal consents: each event of a consent names its animal and application.
 */
function startsObject({ revision, type, stream }: AuditEvent): boolean {
  return revision === 0 && type !== "SandboxReset" && !stream.startsWith("animalConsent-");
}

function isAccess({ type, stream }: AuditEvent): boolean {
  return type === "AuditAccessed" && stream.startsWith("auditAccess-");
}

/** Fields of a query that contain an id. */
const ID_FIELDS = ["appointment", "customer", "animal", "clinic", "application", "auditor", "correlation"];

/** Fields of a query that name a record with its own stream. */
const RECORD_FIELDS = ["appointment", "customer", "animal"];

/** Fields of a query that can match events of several clinics. */
const SHARED_FIELDS = ["correlation", "application"];

/** Actions whose recorded access lacks the ids in the response. */
const ACTIONS_WITHOUT_IDS = ["events", "export", "overlaps"];

function toAccessFacts(data: unknown): AccessFacts {
  const { asked, found, clinicIds, action } = toMembers(data);
  const query = toMembers(asked);
  const streams = listStreams(query);
  const namedIds = ID_FIELDS.flatMap((field) => (typeof query[field] === "string" ? [query[field]] : []));
  const streamIds = streams.map((stream) => stream.slice(stream.indexOf("-") + 1));
  const clinic = typeof query.clinic === "string" ? query.clinic : undefined;
  const isOfClinic = clinic !== undefined && ACTIONS_WITHOUT_IDS.includes(String(action));
  return {
    ids: limit([...namedIds, ...streamIds].map(toKey), [...listUuids(clinicIds), ...listUuids(found)]),
    streamKeys: streams.map((stream) => toPurposeKey("stream", stream)),
    possibleKeys: [
      ...(isOfClinic ? [toPurposeKey("accessed clinic", clinic)] : []),
      ...(SHARED_FIELDS.some((field) => query[field] !== undefined) ? [SHARED_ACCESS_KEY] : []),
    ],
  };
}

/** Lists the streams that a query names, directly or by the id of a record. */
function listStreams(asked: Readonly<Record<string, unknown>>): string[] {
  const recordStreams = RECORD_FIELDS.flatMap((field) =>
    typeof asked[field] === "string" ? [`${field}-${asked[field].toLowerCase()}`] : [],
  );
  return typeof asked.stream === "string" ? [asked.stream, ...recordStreams] : recordStreams;
}

function toMembers(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function listObjectIds(stream: string): string[] {
  const category = OBJECT_CATEGORIES.find((prefix) => stream.startsWith(prefix));
  return category === undefined ? [] : [toKey(stream.slice(category.length))];
}

/**
 * Lists the UUIDs in a value in their order, up to the maximum.
 *
 * @param fields names of the fields whose UUIDs are listed; undefined for all fields
 */
function listUuids(value: unknown, fields?: ReadonlySet<string>): string[] {
  const found = new Set<string>();
  const collect = (part: unknown, isCounted: boolean): void => {
    if (found.size >= MAX_SUBJECTS) return;
    if (typeof part === "string") {
      const id = isCounted && part.length === 36 ? part.toLowerCase() : "";
      if (isUuid(id)) found.add(id);
    } else if (typeof part === "object" && part !== null)
      for (const [name, member] of Object.entries(part)) collect(member, fields?.has(name) ?? true);
  };
  collect(value, !fields);
  return [...found];
}
