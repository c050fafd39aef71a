import type { RecordedEvent } from "@eventstore/db-client";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { type EventMetadata, eventMetadata } from "../../../shared/domain/events/metadata.ts";
import { EventSchemaError, parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { type Instant, toInstant } from "../../../shared/domain/time/rfc3339.ts";

/** An event in the form in which auditors see it. */
export interface AuditEvent {
  /** Log position, in decimal digits. */
  position: string;
  stream: string;
  /** Revision in the stream, from 0. */
  revision: number;
  id: string;
  type: string;
  /** Time of the event, as reported by the program that wrote the event. */
  occurredAt: Instant | null;
  /** Time at which the log stored the event. */
  storedAt: Instant;
  /** Person or program whose action caused the event. */
  actor: { type: string; id: string; note?: string | undefined } | null;
  clinicId: string | null;
  environment: string | null;
  /** Id of the request that directly or indirectly caused the event. */
  correlationId: string | null;
  /** Id of the request or event that directly caused the event. */
  causationId: string | null;
  schemaVersion: number | null;
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
  const metadata = eventMetadata.safeParse(event.metadata).data;
  const { catalogEvent, problem } = parseEvent(event);
  const auditEvent: AuditEvent = {
    position: String(position ?? 0n),
    stream: event.streamId,
    revision: Number(event.revision),
    id: event.id,
    type: event.type,
    occurredAt: metadata?.occurredAt ?? null,
    storedAt: toInstant(event.created.getTime()),
    actor: metadata?.actor ?? null,
    clinicId: metadata?.clinicId ?? null,
    environment: metadata?.environment ?? null,
    correlationId: metadata?.$correlationId ?? null,
    causationId: metadata?.$causationId ?? null,
    schemaVersion: metadata?.schemaVersion ?? null,
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

/** Fields with hashes and ciphertexts of secrets, which auditors do not need. */
const SECRET_FIELDS = new Set(["secretHash", "encryptedSecret", "encryptedValue"]);
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
