import { type Consumer, ConsumerEvents, type ConsumerMessages, type JsMsg } from "nats";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { onAbort } from "../../../shared/runtime/abort.ts";
import type { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { readRelayCheckpoint } from "../../checkpoints/relay-checkpoint.ts";
import { type EventMessage, relayMessageSchema } from "../../relay/message.ts";
import { toMessage } from "../../relay/to-message.ts";
import { type AddedDeliveries, addDeliveries, type MatchDeps } from "./match-event.ts";

const MAX_PREFETCHED_MESSAGES = 500;

/** Interval at which JetStream reports that it has no messages. */
const HEARTBEAT_INTERVAL_MS = 1_000;

/** Time without messages and heartbeats after which the dispatcher starts a new session. */
const MAX_SILENCE_MS = 3_000;

export function consumeMessages(consumer: Consumer): Promise<ConsumerMessages> {
  return consumer.consume({
    max_messages: MAX_PREFETCHED_MESSAGES,
    expires: 10_000,
    idle_heartbeat: HEARTBEAT_INTERVAL_MS,
    abort_on_missing_resource: true,
  });
}

/**
 * Puts messages into a buffer until the signal aborts. Then closes the buffer, and returns later messages to the queue.
 *
 * @throws {Error} if JetStream sends neither messages nor heartbeats, or if the consumer was removed
 */
export async function receiveMessages(
  messages: ConsumerMessages,
  buffer: BoundedBuffer<JsMsg>,
  signal: AbortSignal,
): Promise<void> {
  onAbort(signal, () => {
    buffer.close();
    messages.stop();
  });
  let idleSince = performance.now();
  const endIfSilent = () => {
    if (performance.now() - idleSince < MAX_SILENCE_MS) return;
    messages.stop(new Error("JetStream sends neither messages nor heartbeats."));
  };
  void watchHeartbeats(messages, endIfSilent);
  for await (const message of messages) {
    // While the dispatcher is busy, it requests no messages, and JetStream sends no heartbeats.
    idleSince = Number.POSITIVE_INFINITY;
    if (signal.aborted) message.nak();
    else await buffer.push(message);
    // A closed buffer drops messages. Returning a message twice has no effect.
    if (signal.aborted) message.nak();
    idleSince = performance.now();
  }
  if (!signal.aborted) throw new Error("The JetStream consumer was removed.");
}

/**
 * Calls a function whenever heartbeats are missing, for example because the server that managed the consumer is gone.
 * The client library also requests messages again, but only after up to 20 seconds.
 */
async function watchHeartbeats(messages: ConsumerMessages, onMissing: () => void): Promise<void> {
  for await (const { type } of await messages.status()) if (type === ConsumerEvents.HeartbeatsMissed) onMissing();
}

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
  const added = await addDeliveries(deps, events, now);
  const overdueEvents = [...added.deferredEvents].filter(isOverdue);
  if (overdueEvents.length === 0) return added;
  const earlierEvents = await readUnacknowledgedEvents(deps, overdueEvents);
  const addedLater = await addDeliveries(deps, [...earlierEvents, ...overdueEvents], now);
  const isStillDeferred = (event: EventMessage) => !isOverdue(event) || addedLater.deferredEvents.has(event);
  return {
    dueEndpoints: [...added.dueEndpoints, ...addedLater.dueEndpoints],
    outboxEventCount: added.outboxEventCount + addedLater.outboxEventCount,
    deferredEvents: new Set([...added.deferredEvents].filter(isStillDeferred)),
    earlyEvents: added.earlyEvents,
  };
}

interface EarlierEventDeps extends MatchDeps {
  log: EventLog;
  logger: Logger;
}

/**
 * Reads the public events that come before events in their streams and that the relay's checkpoint has not passed. If
 * the events of a stream cannot be read, logs a warning and leaves them out.
 */
async function readUnacknowledgedEvents(
  { pool, log, logger }: EarlierEventDeps,
  events: readonly EventMessage[],
): Promise<EventMessage[]> {
  const { position: checkpoint } = await readRelayCheckpoint(pool);
  const revisions = new Map<string, bigint>();
  for (const { stream, revision } of events) {
    if (revision > (revisions.get(stream) ?? -1n)) revisions.set(stream, revision);
  }
  const readBefore = async ([stream, revision]: [string, bigint]) => {
    try {
      return await readStreamBefore(log, { stream, revision }, checkpoint);
    } catch (error) {
      logger.warn({ error, stream, revision: String(revision) }, "Events before a deferred event cannot be read.");
      return [];
    }
  };
  return (await Promise.all(Array.from(revisions, readBefore))).flat();
}

async function readStreamBefore(
  log: EventLog,
  { stream, revision }: { stream: string; revision: bigint },
  checkpoint: bigint,
): Promise<EventMessage[]> {
  const history = await log.read(stream, revision - 1n);
  const unacknowledgedEvents = history.filter(({ position }) => position > checkpoint);
  const outgoingMessages = await Promise.all(unacknowledgedEvents.map((event) => toMessage(log, event)));
  return outgoingMessages.flatMap((outgoingMessage) => {
    const message = outgoingMessage && relayMessageSchema.parse(outgoingMessage.message);
    return message?.kind === "event" ? [message] : [];
  });
}
