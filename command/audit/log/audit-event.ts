import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { type EventMetadata, eventMetadata } from "../../../shared/domain/events/metadata.ts";
import { EventSchemaError, parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { type Instant, toInstant } from "../../../shared/domain/time/rfc3339.ts";

/** An event as auditors see it: what is stored, with its place, and in one form for people and programs. */
export interface AuditEvent {
  /** Its place in the whole log, in decimal digits. */
  position: string;
  stream: string;
  /** Its place in the stream, from 0. */
  revision: number;
  id: string;
  type: string;
  /** When it happened, as its writer says. */
  occurredAt: Instant | null;
  /** When the log took it. */
  storedAt: Instant;
  /** Who did it. */
  actor: { type: string; id: string } | null;
  clinicId: string | null;
  environment: string | null;
  /** The request that it came of. */
  correlationId: string | null;
  /** What caused it: the request, or an event. */
  causationId: string | null;
  schemaVersion: number | null;
  /** As stored, but for secrets. */
  data: unknown;
  /** Why the catalog cannot read it; absent where it can. */
  problem?: string;
}

/** An event of the log: as it is shown, and as the service reads it. */
export interface LogEvent {
  shown: AuditEvent;
  /** Undefined where the catalog cannot read it. */
  parsed: (CatalogEvent & { metadata: EventMetadata }) | undefined;
}

/** An event as the log's client gives it. */
export interface ClientEvent {
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
 * Reads one event for auditors. One that the catalog cannot read is told with what is wrong with it, not left out.
 *
 * @param position in the log, where the event itself does not say it
 */
export function toLogEvent(event: ClientEvent, position?: bigint): LogEvent {
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

/** Hashes and ciphertexts of secrets: of no use to an auditor, of some to a thief. */
const SECRETS = new Set(["secretHash", "encryptedSecret"]);
const WITHHELD = "(withheld)";

function withoutSecrets(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  // Bytes that are no JSON come as they are.
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (Array.isArray(value)) return value.map(withoutSecrets);
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, SECRETS.has(key) ? WITHHELD : withoutSecrets(member)]),
  );
}
