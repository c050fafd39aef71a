import { streamName } from "../../shared/domain/events/category.ts";
import { type ParkingEvent, parkingCategory } from "../../shared/domain/events/parking.ts";
import type { EventLog, RecordedEvent } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";

/** Stream of the events about parking. */
export const PARKING_STREAM = streamName(parkingCategory, "streams");

/** A parked stream, and the command that parked it. */
export interface ParkedStream {
  stream: string;
  /** First skipped revision, and its position in the log. */
  revision: bigint;
  position: bigint;
  eventType: string;
  cause: string;
  reason: string;
  actor: string;
  since: string;
}

/** All parked streams. */
export interface ParkedList {
  /** Streams that projectors and relay skip. */
  streams: ReadonlyMap<string, ParkedStream>;
  /** Streams that only the relay skips. */
  relayOnly: ReadonlyMap<string, ParkedStream>;
  /** Revision of the last parking event in this list; -1n for none. */
  upTo: bigint;
}

/** Folds the parking events, in order. Pure. */
function parkedAfter(events: readonly RecordedEvent<ParkingEvent>[]): ParkedList {
  const streams = new Map<string, ParkedStream>();
  const relayOnly = new Map<string, ParkedStream>();
  for (const { type, data, metadata } of events) {
    const { stream } = data;
    if (type === "StreamResumed") {
      streams.delete(stream);
      relayOnly.delete(stream);
    } else {
      const { eventType, cause, reason } = data;
      const place = { revision: BigInt(data.revision), position: BigInt(data.position) };
      const act = { reason, actor: metadata.actor.id, since: metadata.occurredAt };
      const list = data.passedOverBy === "all" ? streams : relayOnly;
      list.set(stream, { stream, ...place, eventType, cause, ...act });
    }
  }
  return { streams, relayOnly, upTo: events.at(-1)?.revision ?? -1n };
}

/** Roles that skip parked streams. */
export type Follower = "projectors" | "relay";

/** Returns true if a role skips an event because its stream is parked. */
export function isParked(
  { streams, relayOnly }: ParkedList,
  by: Follower,
  { stream, revision }: Pick<LogPosition, "stream" | "revision">,
): boolean {
  const lists = by === "relay" ? [streams, relayOnly] : [streams];
  return lists.some((list) => {
    const parked = list.get(stream);
    return parked !== undefined && parked.revision <= revision;
  });
}

/**
 * Reads the parked streams from the log.
 *
 * @throws {LogUnavailableError}
 */
export async function readParked(log: EventLog): Promise<ParkedList> {
  return parkedAfter(await log.read<ParkingEvent>(PARKING_STREAM));
}
