import type { RecordedEvent } from "@eventstore/db-client";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { EventMetadata } from "../../../shared/domain/events/metadata.ts";
import { EventSchemaError, parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { type Instant, toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { type NamedMetadata, separateMetadata } from "./stored-metadata.ts";

/**
 * An event in the form in which auditors see it. Except for `problem` and `erased`, all members follow from the stored
 * event alone, so that every release exports the same event and computes the same leaf of the tree.
 */
export interface AuditEvent extends NamedMetadata {
  /** Log position, in decimal digits. */
  position: string;
  stream: string;
  /** Revision in the stream, from 0. */
  revision: number;
  id: string;
  type: string;
  /** Time at which the log stored the event. */
  storedAt: Instant;
  /** Metadata that no other member contains, for example of a newer release. Absent if there is no such metadata. */
  metadata?: unknown;
  /** Data of the event as stored. Secrets are replaced by a placeholder. Lists show personal data decrypted. */
  data: unknown;
  /** Reason why this release cannot read the event. Absent if the event is readable. */
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
export function toLogEvent(event: RecordedEvent, position = event.position?.commit): LogEvent {
  const { namedMetadata, otherMetadata } = separateMetadata(event.metadata);
  const { catalogEvent, problem } = parseEvent(event);
  const auditEvent: AuditEvent = {
    position: String(position ?? 0n),
    stream: event.streamId,
    revision: Number(event.revision),
    id: event.id,
    type: event.type,
    storedAt: toInstant(event.created.getTime()),
    ...namedMetadata,
    ...(otherMetadata === undefined ? {} : { metadata: withholdSecrets(otherMetadata) }),
    data: withholdSecrets(event.data),
    ...(problem === undefined ? {} : { problem }),
  };
  return { auditEvent, catalogEvent };
}

function parseEvent(event: RecordedEvent): { catalogEvent: LogEvent["catalogEvent"]; problem?: string } {
  try {
    const parsedEvent = parseStoredEvent(event);
    return { catalogEvent: { ...parsedEvent, data: withholdSecrets(parsedEvent.data) } as LogEvent["catalogEvent"] };
  } catch (error) {
    if (!(error instanceof EventSchemaError)) throw error;
    return { catalogEvent: undefined, problem: error.message };
  }
}

/**
 * Fields with hashes and ciphertexts of secrets, which auditors do not need. The list is a part of the format of exports
 * and leaves, so it must never change. A secret in a new event must be in a field with one of these names.
 */
export const SECRET_FIELDS: ReadonlySet<string> = new Set(["secretHash", "encryptedSecret", "encryptedValue"]);
const WITHHELD_TEXT = "(withheld)";

function withholdSecrets(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  // For an event whose data is not JSON, the EventStoreDB client returns bytes.
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (Array.isArray(value)) return value.map(withholdSecrets);
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key,
      SECRET_FIELDS.has(key) ? WITHHELD_TEXT : withholdSecrets(member),
    ]),
  );
}
