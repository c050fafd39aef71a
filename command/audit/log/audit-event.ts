import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { type EventMetadata, eventMetadata } from "../../../shared/domain/events/metadata.ts";
import { EventSchemaError, parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { type Instant, toInstant } from "../../../shared/domain/time/rfc3339.ts";

/** An event as auditors see it. */
export interface AuditEvent {
  /** Log position, in decimal digits. */
  position: string;
  stream: string;
  /** Revision in the stream, from 0. */
  revision: number;
  id: string;
  type: string;
  /** Time of the event, as reported by its writer. */
  occurredAt: Instant | null;
  /** Time at which the log stored the event. */
  storedAt: Instant;
  /** Actor who caused the event. */
  actor: { type: string; id: string } | null;
  clinicId: string | null;
  environment: string | null;
  /** Id of the request that led to the event. */
  correlationId: string | null;
  /** Id of the request or event that directly caused the event. */
  causationId: string | null;
  schemaVersion: number | null;
  /** Stored data without secrets. */
  data: unknown;
  /** Reason why this release cannot read the event; absent if it can. */
  problem?: string;
}

/** An event of the log, as shown to auditors and as parsed by the service. */
export interface LogEvent {
  shown: AuditEvent;
  /** Undefined if this release cannot read the event. */
  parsed: (CatalogEvent & { metadata: EventMetadata }) | undefined;
}

/** An event as returned by the client of the event log. */
export interface EventStoreClientEvent {
  id: string;
  type: string;
  streamId: string;
  revision: bigint;
  created: Date;
  data: unknown;
  metadata: unknown;
  position?: { commit: bigint };
}

/**
 * Converts an event for auditors. An event that this release cannot read is included with its problem.
 *
 * @param position log position, if the event itself does not have it
 */
export function toLogEvent(event: EventStoreClientEvent, position?: bigint): LogEvent {
  const metadata = eventMetadata.safeParse(event.metadata).data;
  const data = withoutSecrets(event.data);
  const { parsed, problem } = parse({ type: event.type, data: event.data, metadata: event.metadata });
  const shown: AuditEvent = {
    position: String(position ?? event.position?.commit ?? 0n),
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
    data,
    ...(problem === undefined ? {} : { problem }),
  };
  return { shown, parsed };
}

function parse(event: { type: string; data: unknown; metadata: unknown }): {
  parsed: LogEvent["parsed"];
  problem?: string;
} {
  try {
    const parsed = parseStoredEvent(event);
    return { parsed: { ...parsed, data: withoutSecrets(parsed.data) } as LogEvent["parsed"] };
  } catch (error) {
    if (!(error instanceof EventSchemaError)) throw error;
    return { parsed: undefined, problem: error.message };
  }
}

/** Members that hold hashes and ciphertexts of secrets, which auditors do not need. */
const SECRETS = new Set(["secretHash", "encryptedSecret"]);
const WITHHELD = "(withheld)";

function withoutSecrets(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  // Data that is not JSON is returned as bytes.
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (Array.isArray(value)) return value.map(withoutSecrets);
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, SECRETS.has(key) ? WITHHELD : withoutSecrets(member)]),
  );
}
