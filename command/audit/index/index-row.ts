import { getClinicIds } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { isLeaf, toLeaf } from "../tree/leaves.ts";
import { isUuid, SHARED_ACCESS_KEY, toKey, toPurposeKey } from "./index-keys.ts";

/** Facts that a row takes over from other events. */
export interface Inheritance {
  /** Subjects and clinics of an object's first event, by the key of the object. */
  objects: ReadonlyMap<string, Pick<IndexRow, "subjects" | "clinics">>;
  /** Subjects and origins of the cause, by the id of its event. */
  causes: ReadonlyMap<string, Pick<IndexRow, "subjects" | "origins">>;
}

/** The part of a row that depends only on its event. */
export interface EventFacts {
  event: AuditEvent;
  eventId: string;
  causationId: string | null;
  clinics: string[];
  /** All UUIDs in the data. */
  ids: string[];
  /** Ids of the objects that the data names, which other events inherit. */
  objectIds: string[];
  origins: string[];
  /** Undefined unless the event records an access. */
  access: AccessFacts | undefined;
  /** Keys of the objects whose first events contribute subjects. */
  objectKeys: string[];
  /** Keys of the objects that start with this event. */
  startedKeys: string[];
  /** Null if the event is not a leaf of the tree. */
  leafHash: Buffer | null;
}

/** A row of the audit index. Ids are keys, as {@link toKey} returns them. */
export interface IndexRow {
  facts: EventFacts;
  /**
   * Ids of the objects that the event concerns, directly or through inheritance. Excludes objects that no other event
   * names.
   */
  subjects: string[];
  /** Keys of the request and the actor, of this event and of its causes. */
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
  /** Keys of the accesses that may have concerned a record. */
  possibleKeys: string[];
}

/** Maximum number of ids that one event can name, and of subjects that it can have. */
const MAX_SUBJECTS = 1_000;

/** Fields of the data with ids that other events inherit. Questions are about these objects. */
const OBJECT_FIELDS = new Set([
  ...["appointmentId", "customerId", "animalId", "applicationId", "installationId", "endpointId"],
]);

/** Categories of objects that other events name by id only. */
const OBJECT_CATEGORIES = ["appointment-", "animal-", "installation-", "webhookEndpoint-"];

/**
 * Returns what the index needs of an event. All releases must return the same result for an event. So the rules depend
 * only on the event, not on the event catalog, and they never change.
 */
export function toEventFacts(event: AuditEvent): EventFacts {
  const { actor, correlationId, causationId, stream, revision } = event;
  const clinics = [...new Set(getClinicIds(event).map(toKey))];
  const access = isAccess(event) ? toAccessFacts(event.data) : undefined;
  const ids = access ? [] : listUuids(withoutCopies(event)).filter((id) => !clinics.includes(id));
  const objectIds = access ? [] : listUuids(event.data, OBJECT_FIELDS);
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

/** Returns the complete row. A consequence concerns the same subjects as its cause. */
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

/** Each event of a resource's day repeats all open reservations, but concerns only one of them. */
function withoutCopies({ stream, data }: AuditEvent): unknown {
  return stream.startsWith("resourceDay-") ? { ...toMembers(data), reservations: null } : data;
}

/**
 * Returns true for the first event of an object. A sandbox reset names many objects, but is not the first event of any
 * object. The consents of an animal concern several applications, and each event names the animal and the application.
 */
function startsObject({ revision, type, stream }: AuditEvent): boolean {
  return revision === 0 && type !== "SandboxReset" && !stream.startsWith("animalConsent-");
}

function isAccess({ type, stream }: AuditEvent): boolean {
  return type === "AuditAccessed" && stream.startsWith("auditAccess-");
}

/** Fields of a query that name one record or clinic. */
const ID_FIELDS = ["appointment", "customer", "animal", "clinic", "application", "auditor", "correlation"];

/** Fields of a query that name a record with its own stream. */
const RECORD_FIELDS = ["appointment", "customer", "animal"];

/** Fields of a query whose events can belong to several clinics. */
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

/** Lists the streams that a query names. */
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
 * Lists the UUIDs in a value, in its order, up to the maximum.
 *
 * @param fields names of the fields that count; undefined for all
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
