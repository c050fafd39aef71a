import { toStreamName } from "../../shared/domain/events/category.ts";
import { type QuarantineEvent, quarantineStreams } from "../../shared/domain/events/quarantine.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { EMPTY_STREAM, type EventLog } from "../../shared/eventstore/log.ts";
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

function foldQuarantineEvents(events: readonly RecordedEvent<QuarantineEvent>[]): QuarantineDecisions {
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
  return { streams, lastRevision: events.at(-1)?.revision ?? EMPTY_STREAM };
}

export function isQuarantined(
  { streams }: QuarantineDecisions,
  { stream, revision }: Pick<LogPosition, "stream" | "revision">,
): boolean {
  const quarantinedStream = streams.get(stream);
  return quarantinedStream !== undefined && quarantinedStream.revision <= revision;
}

/** @throws {LogUnavailableError} */
export async function readQuarantineDecisions(log: EventLog): Promise<QuarantineDecisions> {
  return foldQuarantineEvents(await log.read<QuarantineEvent>(QUARANTINE_STREAM));
}
