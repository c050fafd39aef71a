import { getClinicIds } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { isLeaf, toLeaf } from "../tree/leaves.ts";
import { isUuid, SHARED_ACCESS_KEY, toKey, toPurposeKey } from "./index-keys.ts";

/** Facts that an index row inherits from earlier events. */
export interface Inheritance {
  /** Subjects and clinics of the first event of each object, by the key of the object. */
  objects: ReadonlyMap<string, Pick<IndexRow, "subjects" | "clinics">>;
  /** Subjects and origins of each causing event, by its id. */
  causes: ReadonlyMap<string, Pick<IndexRow, "subjects" | "origins">>;
}

/** The part of an index row that depends only on the event itself. */
export interface EventFacts {
  event: AuditEvent;
  eventId: string;
  causationId: string | null;
  clinics: string[];
  /**
   * UUIDs in the data. Excludes clinic ids, and the list of open reservations in a `resourceDay` event. Empty for an
   * access.
   */
  ids: string[];
  /** UUIDs in the fields that name objects, such as `appointmentId`. Other events can inherit these ids as subjects. */
  objectIds: string[];
  origins: string[];
  /** Undefined unless the event records an access. */
  access: AccessFacts | undefined;
  /** Keys of the event's own object and of objects in its data. The row inherits the subjects of their first events. */
  objectKeys: string[];
  /** Keys of the objects that start with this event. */
  startedKeys: string[];
  /** Null if the event is not a leaf of the tree. */
  leafHash: Buffer | null;
}

/** A row of the audit index. All ids in it are index keys, as returned by {@link toKey}. */
export interface IndexRow {
  facts: EventFacts;
  /**
   * Ids of the objects that the event concerns: from its own data, and inherited from other events. Other events can
   * inherit all of them.
   */
  subjects: string[];
  /** Keys of the requests, applications and auditors that caused the event, directly or through other events. */
  origins: string[];
  clinics: string[];
  /** All keys under which the index finds the event. */
  keys: string[];
}

interface AccessFacts {
  /** Ids of the records and clinics that the query names, or that are recorded as found. */
  ids: string[];
  /** Keys of the streams that the query names. */
  streamKeys: string[];
  /** Keys under which the index finds the access as a `possible` access. */
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

/** Stream-name prefixes of the objects that other events name by id. */
const OBJECT_CATEGORIES = ["appointment-", "animal-", "installation-", "webhookEndpoint-"];

/**
 * Derives the index facts from an event. All releases must derive the same facts. Therefore, the rules must never
 * change, and must not depend on the event catalog.
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

/** Combines an event's own facts with the subjects and origins that it inherits from its objects and from its cause. */
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

/**
 * Removes the list of open reservations from a `resourceDay` event. Each event repeats the list, but concerns only one
 * of them.
 */
function withoutCopies({ stream, data }: AuditEvent): unknown {
  return stream.startsWith("resourceDay-") ? { ...toMembers(data), reservations: null } : data;
}

/**
 * Returns true for the first event of an object, from which later events inherit subjects. Excludes sandbox resets,
 * because they name many objects. Excludes animal consents, because each of their events names the animal and the
 * application.
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

/** Actions that record no ids of the returned records. */
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

/** Lists the streams that a query names, either as `stream` or by the id of a record. */
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
 * Lists the distinct UUIDs in a value in order, up to {@link MAX_SUBJECTS}.
 *
 * @param fields names of the fields to search; undefined for all fields
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
