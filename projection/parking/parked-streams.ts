import { streamName } from "../../shared/domain/events/category.ts";
import { type ParkingEvent, parkingCategory } from "../../shared/domain/events/parking.ts";
import type { EventLog, RecordedEvent } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";

/** Where the operators' acts stand. */
export const PARKING_STREAM = streamName(parkingCategory, "streams");

/** A stream that is passed over, and who decided so. */
export interface ParkedStream {
  stream: string;
  /** The first revision that is passed over, and its position in the log. */
  revision: bigint;
  position: bigint;
  eventType: string;
  cause: string;
  reason: string;
  actor: string;
  since: string;
}

/** The streams that are parked. */
export interface ParkedList {
  /** Passed over by all. */
  streams: ReadonlyMap<string, ParkedStream>;
  /** Passed over by the relay alone: the read models have them. */
  untold: ReadonlyMap<string, ParkedStream>;
  /** The revision of the last act that it knows of; -1n where there was none. */
  upTo: bigint;
}

/** Folds the acts, in order. Pure. */
function parkedAfter(acts: readonly RecordedEvent<ParkingEvent>[]): ParkedList {
  const streams = new Map<string, ParkedStream>();
  const untold = new Map<string, ParkedStream>();
  for (const { type, data, metadata } of acts) {
    const { stream } = data;
    if (type === "StreamResumed") {
      streams.delete(stream);
      untold.delete(stream);
    } else {
      const { eventType, cause, reason } = data;
      const place = { revision: BigInt(data.revision), position: BigInt(data.position) };
      const act = { reason, actor: metadata.actor.id, since: metadata.occurredAt };
      const list = data.passedOverBy === "all" ? streams : untold;
      list.set(stream, { stream, ...place, eventType, cause, ...act });
    }
  }
  return { streams, untold, upTo: acts.at(-1)?.revision ?? -1n };
}

/** Who passes parked streams over. */
export type Follower = "projectors" | "relay";

/** Whether an event's stream is parked for somebody, from that event on or before it. */
export function isParked(
  { streams, untold }: ParkedList,
  by: Follower,
  { stream, revision }: Pick<LogPosition, "stream" | "revision">,
): boolean {
  const lists = by === "relay" ? [streams, untold] : [streams];
  return lists.some((list) => {
    const parked = list.get(stream);
    return parked !== undefined && parked.revision <= revision;
  });
}

/**
 * The list as the log has it now.
 *
 * @throws {LogUnavailable}
 */
export async function readParked(log: EventLog): Promise<ParkedList> {
  return parkedAfter(await log.read<ParkingEvent>(PARKING_STREAM));
}
