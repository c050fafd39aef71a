import { toStreamName } from "../../shared/domain/events/category.ts";
import { type QuarantineEvent, quarantineStreams } from "../../shared/domain/events/quarantine.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { EMPTY_STREAM, type EventLog } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import type { LogRole } from "../roles/role.ts";

/** Stream of the quarantine events: `StreamQuarantined` and `StreamResumed`. */
export const QUARANTINE_STREAM = toStreamName(quarantineStreams, "streams");

export interface QuarantineDecision {
  stream: string;
  revision: bigint;
  /** Position of the first skipped event. */
  position: bigint;
  eventType: string;
  /** Error message of the role that stopped at the event. */
  cause: string;
  /** Reason that the operator gave. */
  reason: string;
  actor: string;
  /** RFC 3339. */
  since: string;
}

interface QuarantineDecisions {
  /** Streams that projectors and relay skip. */
  streams: ReadonlyMap<string, QuarantineDecision>;
  /** Streams that only the relay skips. */
  relayOnlyStreams: ReadonlyMap<string, QuarantineDecision>;
  /** Revision of the last quarantine event that these lists reflect; `EMPTY_STREAM` if there is none. */
  lastRevision: bigint;
}

function foldQuarantineEvents(events: readonly RecordedEvent<QuarantineEvent>[]): QuarantineDecisions {
  const streams = new Map<string, QuarantineDecision>();
  const relayOnlyStreams = new Map<string, QuarantineDecision>();
  for (const { type, data, metadata } of events) {
    const { stream } = data;
    if (type === "StreamResumed") {
      streams.delete(stream);
      relayOnlyStreams.delete(stream);
    } else {
      const { eventType, cause, reason } = data;
      const streamMap = data.scope === "all" ? streams : relayOnlyStreams;
      streamMap.set(stream, {
        stream,
        revision: BigInt(data.revision),
        position: BigInt(data.position),
        eventType,
        cause,
        reason,
        actor: metadata.actor.id,
        since: metadata.occurredAt,
      });
    }
  }
  return { streams, relayOnlyStreams, lastRevision: events.at(-1)?.revision ?? EMPTY_STREAM };
}

export function isQuarantined(
  { streams, relayOnlyStreams }: QuarantineDecisions,
  role: LogRole,
  { stream, revision }: Pick<LogPosition, "stream" | "revision">,
): boolean {
  const streamMaps = role === "relay" ? [streams, relayOnlyStreams] : [streams];
  return streamMaps.some((streamMap) => {
    const quarantinedStream = streamMap.get(stream);
    return quarantinedStream !== undefined && quarantinedStream.revision <= revision;
  });
}

/** @throws {LogUnavailableError} */
export async function readQuarantineDecisions(log: EventLog): Promise<QuarantineDecisions> {
  return foldQuarantineEvents(await log.read<QuarantineEvent>(QUARANTINE_STREAM));
}
