import { type Consumer, ConsumerEvents, type ConsumerMessages, type JsMsg } from "nats";
import { onAbort } from "../../../shared/runtime/abort.ts";
import type { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";

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

/** Time after which JetStream redelivers a message that was returned to the queue. */
export const REDELIVERY_DELAY_MS = 1_000;

interface MessageBuffers {
  events: BoundedBuffer<JsMsg>;
  replays: BoundedBuffer<JsMsg>;
  replaySubject: string;
}

/**
 * Puts messages into buffers until the signal aborts. Then closes the buffers, and returns later messages to the queue.
 * Also returns replays for which the buffer has no room, so that the events behind them do not wait.
 *
 * @throws {Error} if JetStream sends neither messages nor heartbeats, or if the consumer was removed
 */
export async function receiveMessages(
  messages: ConsumerMessages,
  { events, replays, replaySubject }: MessageBuffers,
  signal: AbortSignal,
): Promise<void> {
  onAbort(signal, () => {
    events.close();
    replays.close();
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
    else if (message.subject !== replaySubject) await events.push(message);
    else if (replays.isFull) message.nak(REDELIVERY_DELAY_MS);
    else await replays.push(message);
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
