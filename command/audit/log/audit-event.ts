import type { RecordedEvent as StoredEvent } from "@eventstore/db-client";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { EventSchemaError, parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { ENCRYPTED_MEMBER, encryptedPersonalData } from "../../../shared/domain/personal-data/encrypted.ts";
import { addNeutralValues } from "../../../shared/domain/personal-data/personal-fields.ts";
import { type Instant, toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { DataKeyError, type DataKeys, KeyStoreUnavailableError } from "../../../shared/personal-data/data-keys.ts";
import { decryptEvent, decryptFields, isDecryptionError } from "../../../shared/personal-data/decrypt-events.ts";

/**
 * An event in the form in which auditors see it. Except for `problem` and `erased`, all members depend only on the
 * stored event. Therefore, every release exports the same event and computes the same leaf of the tree.
 */
export interface AuditEvent extends NamedMetadata {
  position: string;
  stream: string;
  /** Revision in the stream, from 0. */
  revision: number;
  id: string;
  type: string;
  storedAt: Instant;
  /** Stored metadata that has no other member in this interface, for example from a newer release. Absent if empty. */
  metadata?: unknown;
  /** Data as stored, with placeholders for secrets. Personal data is decrypted in lists, but not in exports. */
  data: unknown;
  /** Reason why the event, or its personal data, cannot be read. Absent if the event is readable. */
  problem?: string;
  /** True if the event's personal data was erased. The fields then have neutral values. */
  erased?: boolean;
}

/** An event of the log in two forms: for auditors, and for the service's own code. */
export interface LogEvent {
  auditEvent: AuditEvent;
  /** The event as validated by the event catalog. Undefined if this release cannot read the event. */
  catalogEvent: (CatalogEvent & { metadata: EventMetadata }) | undefined;
}

/**
 * Converts a stored event. If this release cannot read the event, the result contains the reason.
 *
 * @param position log position; required only if the stored event contains no position
 */
export function toLogEvent(event: StoredEvent, position = event.position?.commit): LogEvent {
  const { catalogEvent, problem } = parseEvent(event);
  return { auditEvent: { ...toAuditEvent(event, position), ...(problem !== undefined && { problem }) }, catalogEvent };
}

/**
 * Converts a stored event to the form for auditors, without validation. `problem` is always absent.
 *
 * @param position log position of the event
 */
export function toAuditEvent(event: StoredEvent, position = event.position?.commit): AuditEvent {
  const { namedMetadata, otherMetadata } = separateMetadata(toAuditableValue(event.metadata));
  return {
    position: String(position ?? 0n),
    stream: event.streamId,
    revision: Number(event.revision),
    id: event.id,
    type: event.type,
    storedAt: toInstant(event.created.getTime()),
    ...namedMetadata,
    ...(otherMetadata === undefined ? {} : { metadata: otherMetadata }),
    data: toAuditableValue(event.data),
  };
}

/** Validates an event from an export against the event catalog. In an export, placeholders replace the secrets. */
export function parseAuditEvent(auditEvent: AuditEvent): LogEvent {
  const names = Object.keys(NAMED_MEMBERS) as (keyof NamedMetadata)[];
  const namedMetadata = Object.fromEntries(names.map((name) => [NAMED_MEMBERS[name][0], auditEvent[name]]));
  const metadata = { ...(isObject(auditEvent.metadata) && auditEvent.metadata), ...namedMetadata };
  const { catalogEvent, problem } = parseEvent({ ...auditEvent, streamId: auditEvent.stream, metadata });
  return { auditEvent: { ...auditEvent, ...(problem !== undefined && { problem }) }, catalogEvent };
}

function parseEvent(event: Parameters<typeof parseStoredEvent>[0]): {
  catalogEvent: LogEvent["catalogEvent"];
  problem?: string;
} {
  try {
    const parsedEvent = parseStoredEvent(event);
    return { catalogEvent: { ...parsedEvent, data: toAuditableValue(parsedEvent.data) } as LogEvent["catalogEvent"] };
  } catch (error) {
    if (!(error instanceof EventSchemaError)) throw error;
    return { catalogEvent: undefined, problem: error.message };
  }
}

/**
 * Fields with hashes and ciphertexts of secrets, which auditors do not need. Exports and leaves depend on this list, so
 * it must never change. A secret in a new event must be in a field with one of these names.
 */
export const SECRET_FIELDS: ReadonlySet<string> = new Set(["secretHash", "encryptedSecret", "encryptedValue"]);
const WITHHELD_TEXT = "(withheld)";

/**
 * Maximum nesting depth of event data. Commands write at most about 100 levels. The functions that read, compare and
 * write values are recursive, so a single deeper event of another program would make every scan fail.
 */
const MAX_NESTING_LEVELS = 300;
const OMITTED_TEXT = "(omitted)";

/**
 * Replaces secrets, and values that canonical JSON cannot represent. Exports and leaves of the tree depend on these
 * rules, so they must never change.
 */
function toAuditableValue(value: unknown, level = 0): unknown {
  if (typeof value === "number") return Number.isFinite(value) ? value : OMITTED_TEXT;
  if (typeof value === "string") return replaceLoneSurrogates(value);
  if (typeof value !== "object" || value === null) return value;
  // For an event whose data is not JSON, the EventStoreDB client returns bytes.
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (level === MAX_NESTING_LEVELS) return OMITTED_TEXT;
  if (Array.isArray(value)) return value.map((element) => toAuditableValue(element, level + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      replaceLoneSurrogates(key),
      SECRET_FIELDS.has(key) ? WITHHELD_TEXT : toAuditableValue(member, level + 1),
    ]),
  );
}

function replaceLoneSurrogates(text: string): string {
  return text.replace(/\p{Cs}/gu, "\ufffd");
}

/** Members of an audit event that come from the metadata of the stored event. */
interface NamedMetadata {
  /** Time of the event, as reported by the program that wrote the event. */
  occurredAt: Instant | null;
  actor: { type: string; id: string; note?: string | undefined } | null;
  clinicId: string | null;
  environment: string | null;
  correlationId: string | null;
  causationId: string | null;
  schemaVersion: number | null;
}

const isString = (value: unknown): value is string => typeof value === "string";
const isTime = (value: unknown) => isString(value) && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value);
const isActor = (value: unknown) =>
  isObject(value) && isString(value.type) && isString(value.id) && (value.note === undefined || isString(value.note));

/** Metadata members of an audit event: their names in the stored metadata, and checks of their form. */
const NAMED_MEMBERS: { [Name in keyof NamedMetadata]: [storedName: string, hasForm: (value: unknown) => boolean] } = {
  occurredAt: ["occurredAt", isTime],
  actor: ["actor", isActor],
  clinicId: ["clinicId", isString],
  environment: ["environment", isString],
  correlationId: ["$correlationId", isString],
  causationId: ["$causationId", isString],
  schemaVersion: ["schemaVersion", (value) => typeof value === "number"],
};

/** Metadata members that audit events omit, because they describe the request instead of the event. */
const OMITTED_MEMBERS = ["traceparent"];

/**
 * Splits stored metadata into the named members of audit events and all other metadata. If a value is missing or
 * malformed, the named member is null. A malformed value stays in the other metadata.
 *
 * Exports and tree leaves contain the result, so all releases must return the same result. Therefore, the rules must
 * never change, and must not depend on the event catalog.
 *
 * @param metadata auditable value; undefined if the event has no metadata
 */
function separateMetadata(metadata: unknown): { namedMetadata: NamedMetadata; otherMetadata: unknown } {
  const members = new Map(isObject(metadata) ? Object.entries(metadata) : []);
  const namedEntries = Object.entries(NAMED_MEMBERS).map(([name, [storedName, hasForm]]) => {
    const value = members.get(storedName) ?? null;
    const isNamed = value === null || hasForm(value);
    if (isNamed) members.delete(storedName);
    return [name, isNamed ? value : null];
  });
  for (const name of OMITTED_MEMBERS) members.delete(name);
  const namedMetadata = Object.fromEntries(namedEntries) as NamedMetadata;
  if (!isObject(metadata)) return { namedMetadata, otherMetadata: metadata ?? undefined };
  return { namedMetadata, otherMetadata: members.size > 0 ? Object.fromEntries(members) : undefined };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns an event in the form that aggregates fold. Returns undefined if this release cannot read the event. */
export function toRecordedEvent({ auditEvent, catalogEvent }: LogEvent): RecordedEvent | undefined {
  const { id, stream, revision, position } = auditEvent;
  const recordedFields = { id, stream, revision: BigInt(revision), position: BigInt(position) };
  return catalogEvent && ({ ...catalogEvent, ...recordedFields } as RecordedEvent);
}

/** An event after an attempt to decrypt its personal data. */
export interface RevealedEvent {
  auditEvent: AuditEvent;
  /** The event in the form that aggregates fold, or the reason why this release cannot read it. */
  recorded: RecordedEvent | string;
}

/**
 * Decrypts an event's personal data. If the data was erased, the event has neutral values and the mark `erased`. If the
 * data cannot be decrypted, for example because the data key is missing, the event stays encrypted and names the problem.
 * If only the store of the data keys is unavailable, the event can still be folded, with neutral values.
 */
export async function revealEvent(logEvent: LogEvent, dataKeys: DataKeys): Promise<RevealedEvent> {
  const { auditEvent } = logEvent;
  const { type, stream, id } = auditEvent;
  const recorded = toRecordedEvent(logEvent) ?? auditEvent.problem ?? "";
  const { [ENCRYPTED_MEMBER]: member, ...otherData } = (auditEvent.data ?? {}) as Record<string, unknown>;
  const encrypted = encryptedPersonalData.safeParse(member).data;
  if (!encrypted) return { auditEvent, recorded };
  try {
    const keys = await dataKeys.find([encrypted.keyId]);
    const fields = decryptFields({ type, stream, id, encrypted }, keys);
    if (fields === "missing") {
      const problem = `data key ${encrypted.keyId} is missing; restore the data keys from a backup`;
      throw new DataKeyError(problem);
    }
    const data = fields === "erased" ? addNeutralValues(type, otherData) : { ...otherData, ...fields };
    return {
      auditEvent: { ...auditEvent, data, ...(fields === "erased" && { erased: true }) },
      recorded: typeof recorded === "string" ? recorded : decryptEvent(recorded, keys),
    };
  } catch (error) {
    const isStoreUnavailable = error instanceof KeyStoreUnavailableError;
    if (!isStoreUnavailable && !isDecryptionError(error)) throw error;
    const { message: problem } = error;
    return { auditEvent: { ...auditEvent, problem }, recorded: isStoreUnavailable ? recorded : problem };
  }
}
