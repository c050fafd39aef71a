import { toStreamName } from "../../shared/domain/events/category.ts";
import { type ParkingEvent, parkingStreams } from "../../shared/domain/events/parking.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { EMPTY_STREAM, type EventLog } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import type { LogRole } from "../roles/role.ts";

/** Stream of the parking events: `StreamParked` and `StreamResumed`. */
export const PARKING_STREAM = toStreamName(parkingStreams, "streams");

export interface ParkedStream {
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

interface ParkedList {
  /** Streams that projectors and relay skip. */
  streams: ReadonlyMap<string, ParkedStream>;
  /** Streams that only the relay skips. */
  relayOnlyStreams: ReadonlyMap<string, ParkedStream>;
  /** Revision of the last parking event that these lists reflect; `EMPTY_STREAM` if there is none. */
  lastRevision: bigint;
}

function foldParkingEvents(events: readonly RecordedEvent<ParkingEvent>[]): ParkedList {
  const streams = new Map<string, ParkedStream>();
  const relayOnlyStreams = new Map<string, ParkedStream>();
  for (const { type, data, metadata } of events) {
    const { stream } = data;
    if (type === "StreamResumed") {
      streams.delete(stream);
      relayOnlyStreams.delete(stream);
    } else {
      const { eventType, cause, reason } = data;
      const streamMap = data.passedOverBy === "all" ? streams : relayOnlyStreams;
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

export function isParked(
  { streams, relayOnlyStreams }: ParkedList,
  role: LogRole,
  { stream, revision }: Pick<LogPosition, "stream" | "revision">,
): boolean {
  const streamMaps = role === "relay" ? [streams, relayOnlyStreams] : [streams];
  return streamMaps.some((streamMap) => {
    const parkedStream = streamMap.get(stream);
    return parkedStream !== undefined && parkedStream.revision <= revision;
  });
}

/** @throws {LogUnavailableError} */
export async function readParkedStreams(log: EventLog): Promise<ParkedList> {
  return foldParkingEvents(await log.read<ParkingEvent>(PARKING_STREAM));
}
