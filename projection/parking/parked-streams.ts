import { streamName } from "../../shared/events/category.ts";
import { type ParkingEvent, parkingCategory } from "../../shared/events/parking.ts";
import type { EventLog, RecordedEvent } from "../../shared/eventstore/log.ts";

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
export interface ParkedList<Entry = ParkedStream> {
  streams: ReadonlyMap<string, Entry>;
  /** The revision of the last act that it knows of; -1n where there was none. */
  upTo: bigint;
}

/** Folds the acts, in order. Pure. */
function parkedAfter(acts: readonly RecordedEvent<ParkingEvent>[]): ParkedList {
  const streams = new Map<string, ParkedStream>();
  for (const { type, data, metadata } of acts) {
    const { stream } = data;
    if (type === "StreamResumed") streams.delete(stream);
    else {
      const { eventType, cause, reason } = data;
      const place = { revision: BigInt(data.revision), position: BigInt(data.position) };
      const act = { reason, actor: metadata.actor.id, since: metadata.occurredAt };
      streams.set(stream, { stream, ...place, eventType, cause, ...act });
    }
  }
  return { streams, upTo: acts.at(-1)?.revision ?? -1n };
}

/**
 * The list as the log has it now.
 *
 * @throws {LogUnavailable}
 */
export async function readParked(log: EventLog): Promise<ParkedList> {
  return parkedAfter(await log.read<ParkingEvent>(PARKING_STREAM));
}
