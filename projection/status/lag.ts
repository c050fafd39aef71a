import { type EventStoreDBClient, START } from "@eventstore/db-client";
import { isCatalogStream } from "../../shared/domain/events/catalog.ts";
import { BEFORE_FIRST } from "../checkpoints/checkpoint.ts";
import { READ_TIMEOUT_MS, readWithTimeout } from "../checkpoints/read-with-timeout.ts";
import { relayedCategories } from "../relay/to-message.ts";

/** Distance of a role from the end of the log. */
export interface Lag {
  events: number;
  /** False if the number of events is an estimate. */
  exact: boolean;
  /** Age of the first unprocessed event. */
  seconds: number;
}

/** Highest exact count, so that measuring stays cheap at any lag. */
const MAX_COUNTED_EVENTS = 1_000;

/** Roles that read the log, with a filter for the streams of each. */
export const followers = {
  projectors: isCatalogStream,
  relay: (stream: string) => relayedCategories.some(({ name }) => stream.startsWith(`${name}-`)),
} as const;
export type Follower = keyof typeof followers;

/** Returns true if a role reads the log, so that it can be behind. */
export function isFollower(role: string): role is Follower {
  return Object.hasOwn(followers, role);
}

/**
 * Measures the lag of a role at a position. If there are more than a thousand events, it estimates their number from the
 * log space that the first thousand take.
 *
 * @param end position of the last event in the log
 * @param now milliseconds since 1970
 * @throws the client's error if the log is unavailable
 */
export async function lagBehind(
  client: EventStoreDBClient,
  follower: Follower,
  position: bigint,
  end: bigint,
  now: number,
): Promise<Lag> {
  const fromPosition = position === BEFORE_FIRST ? START : { commit: position, prepare: position };
  const read = client.readAll({ fromPosition, maxCount: MAX_COUNTED_EVENTS + 1, deadline: READ_TIMEOUT_MS });
  const lag: Lag = { events: 0, exact: true, seconds: 0 };
  let seen = 0;
  let last = position;
  for await (const { event } of readWithTimeout(read)) {
    seen += 1;
    if (!event || event.position.commit <= position) continue;
    last = event.position.commit;
    if (!followers[follower](event.streamId)) continue;
    if (lag.events === 0) lag.seconds = Math.max(0, (now - event.created.getTime()) / 1000);
    lag.events += 1;
  }
  if (seen <= MAX_COUNTED_EVENTS || last <= position) return lag;
  const share = Number(end - position) / Number(last - position);
  return { ...lag, exact: false, events: Math.max(lag.events, Math.round(lag.events * share)) };
}
