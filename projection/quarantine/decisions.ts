import type { EventStoreDBClient } from "@eventstore/db-client";
import { toStreamName } from "../../shared/domain/events/category.ts";
import type { EventMetadata } from "../../shared/domain/events/metadata.ts";
import { type QuarantineEvent, quarantineStreams } from "../../shared/domain/events/quarantine.ts";
import { EventSchemaError, parseStoredEvent, type StoredEvent } from "../../shared/domain/events/stored-event.ts";
import { EMPTY_STREAM } from "../../shared/eventstore/log.ts";
import { readStoredEvents } from "../../shared/eventstore/read-log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";

/** Stream of the quarantine events: `StreamQuarantined` and `StreamResumed`. */
export const QUARANTINE_STREAM = toStreamName(quarantineStreams, "streams");

export interface QuarantineDecision {
  stream: string;
  revision: bigint;
  /** Position of the first skipped event. */
  position: bigint;
  eventType: string;
  /** Error message of the projectors. */
  cause: string;
  /** Reason that the operator gave. */
  reason: string;
  actor: string;
  /** RFC 3339. */
  since: string;
}

interface QuarantineDecisions {
  /** Streams that the projectors skip. */
  streams: ReadonlyMap<string, QuarantineDecision>;
  /** Revision of the last quarantine event that is reflected in `streams`; `EMPTY_STREAM` if there is none. */
  lastRevision: bigint;
}

function foldQuarantineEvents(events: readonly QuarantineEventWithMetadata[]): QuarantineDecisions["streams"] {
  const streams = new Map<string, QuarantineDecision>();
  for (const { type, data, metadata } of events) {
    const { stream } = data;
    if (type === "StreamResumed") {
      streams.delete(stream);
      continue;
    }
    const { revision, position, eventType, cause, reason } = data;
    const decision = { revision: BigInt(revision), position: BigInt(position), eventType, cause, reason };
    streams.set(stream, { stream, ...decision, actor: metadata.actor.id, since: metadata.occurredAt });
  }
  return streams;
}

export function isQuarantined(
  { streams }: QuarantineDecisions,
  { stream, revision }: Pick<LogPosition, "stream" | "revision">,
): boolean {
  const quarantinedStream = streams.get(stream);
  return quarantinedStream !== undefined && quarantinedStream.revision <= revision;
}

/**
 * Reads the operators' decisions. A decision that this release cannot read concerns one stream, so it is ignored. The
 * status shows it, because the projectors quarantine the stream of the decisions.
 *
 * @throws {LogUnavailableError}
 */
export async function readQuarantineDecisions(client: EventStoreDBClient): Promise<QuarantineDecisions> {
  const events: QuarantineEventWithMetadata[] = [];
  let lastRevision = EMPTY_STREAM;
  for (;;) {
    const page = await readStoredEvents(client, QUARANTINE_STREAM, {
      fromRevision: lastRevision + 1n,
      maxCount: PAGE_SIZE,
    });
    for (const storedEvent of page) {
      const event = parseIfReadable(storedEvent);
      if (event) events.push(event);
      lastRevision = storedEvent.revision;
    }
    if (page.length < PAGE_SIZE) return { streams: foldQuarantineEvents(events), lastRevision };
  }
}

const PAGE_SIZE = 500;

type QuarantineEventWithMetadata = QuarantineEvent & { metadata: EventMetadata };

function parseIfReadable(storedEvent: StoredEvent): QuarantineEventWithMetadata | undefined {
  try {
    const event = parseStoredEvent(storedEvent);
    return event.type === "StreamQuarantined" || event.type === "StreamResumed" ? event : undefined;
  } catch (error) {
    if (error instanceof EventSchemaError) return undefined;
    throw error;
  }
}
