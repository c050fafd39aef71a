import { type EventStoreDBClient, START } from "@eventstore/db-client";
import { isCatalogStream } from "../../shared/domain/events/catalog.ts";
import { REQUEST_TIMEOUT_MS } from "../../shared/eventstore/log.ts";
import { BEFORE_FIRST_EVENT, readWithin } from "../../shared/eventstore/read-log.ts";
import { relayedCategories } from "../relay/to-message.ts";
import type { LogRole } from "../roles/role.ts";

export interface Lag {
  events: number;
  /** False if the number of events is an estimate. */
  exact: boolean;
  /** Age of the first unprocessed event. */
  seconds: number;
}

/** Maximum number of events that are counted exactly, so that measuring stays cheap at any lag. */
const MAX_COUNTED_EVENTS = 1_000;

const STREAM_FILTERS: Record<LogRole, (stream: string) => boolean> = {
  projectors: isCatalogStream,
  relay: (stream) => relayedCategories.some(({ name }) => stream.startsWith(`${name}-`)),
};

export function isLogRole(role: string): role is LogRole {
  return Object.hasOwn(STREAM_FILTERS, role);
}

/**
 * Measures how far a role at the given position is behind the end of the log. If the role is behind by more than a
 * thousand events, the number of events is estimated from the log positions of the first thousand events.
 *
 * @param logEnd position of the last event in the log
 * @param now milliseconds since 1970
 * @throws the client's error if the log is unavailable
 */
export async function measureLag(
  client: EventStoreDBClient,
  role: LogRole,
  position: bigint,
  logEnd: bigint,
  now: number,
): Promise<Lag> {
  const fromPosition = position === BEFORE_FIRST_EVENT ? START : { commit: position, prepare: position };
  const events = client.readAll({ fromPosition, maxCount: MAX_COUNTED_EVENTS + 1, deadline: REQUEST_TIMEOUT_MS });
  const lag: Lag = { events: 0, exact: true, seconds: 0 };
  let readEventCount = 0;
  let lastPosition = position;
  for await (const { event } of readWithin(REQUEST_TIMEOUT_MS, events)) {
    readEventCount += 1;
    if (!event || event.position.commit <= position) continue;
    lastPosition = event.position.commit;
    if (!STREAM_FILTERS[role](event.streamId)) continue;
    if (lag.events === 0) lag.seconds = Math.max(0, (now - event.created.getTime()) / 1000);
    lag.events += 1;
  }
  if (readEventCount <= MAX_COUNTED_EVENTS || lastPosition <= position) return lag;
  const distanceRatio = Number(logEnd - position) / Number(lastPosition - position);
  return { ...lag, exact: false, events: Math.max(lag.events, Math.round(lag.events * distanceRatio)) };
}
