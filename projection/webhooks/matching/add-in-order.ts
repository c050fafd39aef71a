import type { EventMessage } from "../../relay/message.ts";
import { type EarlierEventDeps, readUnacknowledgedEvents } from "../ordering/unacknowledged-events.ts";
import { type AddedDeliveries, addDeliveries } from "./match.ts";

/**
 * Adds deliveries like {@link addDeliveries}. An event that was deferred too often does not wait for the message of an
 * earlier event: the function reads the earlier events from the log and adds their deliveries first.
 *
 * Without this, events could wait forever. If the relay publishes an acknowledged event again, its checkpoint waits for
 * the acknowledgement of all messages that are older than the new message. A deferred event may be one of them, and
 * waits for the checkpoint.
 *
 * @param isOverdue returns true for an event that was deferred too often
 * @param now milliseconds since 1970
 */
export async function addInOrder(
  deps: EarlierEventDeps,
  events: readonly EventMessage[],
  isOverdue: (event: EventMessage) => boolean,
  now: number,
): Promise<AddedDeliveries> {
  const added = await addDeliveries(deps.pool, events, now);
  const overdueEvents = [...added.deferredEvents].filter(isOverdue);
  if (overdueEvents.length === 0) return added;
  const earlierEvents = await readUnacknowledgedEvents(deps, overdueEvents);
  const addedLater = await addDeliveries(deps.pool, [...earlierEvents, ...overdueEvents], now);
  const isStillDeferred = (event: EventMessage) => !isOverdue(event) || addedLater.deferredEvents.has(event);
  return {
    dueEndpoints: [...added.dueEndpoints, ...addedLater.dueEndpoints],
    factCount: added.factCount + addedLater.factCount,
    deferredEvents: new Set([...added.deferredEvents].filter(isStillDeferred)),
  };
}
