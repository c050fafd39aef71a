import { type EventStoreDBClient, START } from "@eventstore/db-client";
import { isCatalogStream } from "../../shared/domain/events/catalog.ts";
import { BEFORE_FIRST } from "../checkpoints/checkpoint.ts";
import { READ_TIMEOUT_MS, readWithTimeout } from "../checkpoints/read-with-timeout.ts";
import { relayedCategories } from "../relay/to-message.ts";

/** What stands in the log after a position. */
export interface Lag {
  events: number;
  /** False where the events were too many to count: then they are estimated. */
  exact: boolean;
  /** Since the first of them was stored. */
  seconds: number;
}

/** Events behind are counted up to here, so that asking costs little however far behind somebody is. */
const MAX_COUNTED_EVENTS = 1_000;

/** Who follows the log, and which streams each follows. */
export const followers = {
  projectors: isCatalogStream,
  relay: (stream: string) => relayedCategories.some(({ name }) => stream.startsWith(`${name}-`)),
} as const;
export type Follower = keyof typeof followers;

/** Whether a role follows the log, so that it can be behind. */
export function isFollower(role: string): role is Follower {
  return Object.hasOwn(followers, role);
}

/**
 * How far behind somebody is who has taken the log up to a position. What goes beyond the first thousand events is
 * estimated from the space that those take.
 *
 * @param end the position of the log's last event
 * @param now milliseconds since 1970
 * @throws what the client throws where the log is out of reach
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
