import type { EventStoreDBClient, RecordedEvent as StoredEvent } from "@eventstore/db-client";
import { toStreamName } from "../../shared/domain/events/category.ts";
import type { EventMetadata } from "../../shared/domain/events/metadata.ts";
import { type QuarantineEvent, quarantineStreams } from "../../shared/domain/events/quarantine.ts";
import { EventSchemaError, parseStoredEvent } from "../../shared/domain/events/stored-event.ts";
import { EMPTY_STREAM } from "../../shared/eventstore/log.ts";
import { readStoredEvents } from "../../shared/eventstore/read-log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";

/** Stream of the operators' decisions. */
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
  /** Log position of the last confirmation of each event type. */
  confirmedTypes: ReadonlyMap<string, bigint>;
  /** Revision of the last quarantine event that the decisions reflect; `EMPTY_STREAM` if there is none. */
  lastRevision: bigint;
}

function foldDecisions(events: readonly RecordedDecision[]): Omit<QuarantineDecisions, "lastRevision"> {
  const streams = new Map<string, QuarantineDecision>();
  const confirmedTypes = new Map<string, bigint>();
  for (const { type, data, metadata, logPosition } of events) {
    if (type === "StreamResumed") streams.delete(data.stream);
    else if (type === "EventTypeConfirmed") confirmedTypes.set(data.eventType, logPosition);
    else {
      const { stream, revision, position, eventType, cause, reason } = data;
      const decision = { revision: BigInt(revision), position: BigInt(position), eventType, cause, reason };
      streams.set(stream, { stream, ...decision, actor: metadata.actor.id, since: metadata.occurredAt });
    }
  }
  return { streams, confirmedTypes };
}

/** Returns true if an operator has decided that the projectors skip an event that fails. */
export function isQuarantined(
  { streams, confirmedTypes }: QuarantineDecisions,
  { stream, revision, type, position }: LogPosition,
): boolean {
  const quarantinedStream = streams.get(stream);
  if (quarantinedStream && quarantinedStream.revision <= revision) return true;
  return position < (confirmedTypes.get(type) ?? position);
}

/**
 * Reads the operators' decisions. A decision that this release cannot read concerns one stream, so it is ignored. The
 * status shows it, because the projectors quarantine the stream of the decisions.
 *
 * @throws {LogUnavailableError}
 */
export async function readQuarantineDecisions(client: EventStoreDBClient): Promise<QuarantineDecisions> {
  const events: RecordedDecision[] = [];
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
    if (page.length < PAGE_SIZE) return { ...foldDecisions(events), lastRevision };
  }
}

const PAGE_SIZE = 500;

type RecordedDecision = QuarantineEvent & { metadata: EventMetadata; logPosition: bigint };

function parseIfReadable(storedEvent: StoredEvent): RecordedDecision | undefined {
  try {
    // All events of the stream belong to its category.
    const event = parseStoredEvent(storedEvent) as QuarantineEvent & { metadata: EventMetadata };
    return { ...event, logPosition: storedEvent.position?.commit ?? 0n };
  } catch (error) {
    if (error instanceof EventSchemaError) return undefined;
    throw error;
  }
}
