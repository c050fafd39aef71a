import type { EventLog } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { type Follower, isParked, readParked } from "./parked-streams.ts";

export interface StoppedAt {
  log: EventLog;
  /** Who has stopped. */
  by: Follower;
  /** The event that somebody cannot get past; undefined where it is no event's fault, and parking is no help. */
  place: LogPosition | undefined;
  /** Something else that makes it worth while to try again. */
  orElse?(): Promise<boolean>;
  logger: Logger;
}

/** Asked this often. Milliseconds. */
const ASK_EVERY = 1_000;

/** Waits until the stream of an event is parked from that event on, or the signal aborts. */
export async function untilParked(
  { log, by, place, orElse, logger }: StoppedAt,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await pause(ASK_EVERY, signal);
    try {
      if (place && isParked(await readParked(log), by, place)) return;
      if (await orElse?.()) return;
    } catch (error) {
      logger.warn({ error }, "cannot ask whether the stream is parked");
    }
  }
}
