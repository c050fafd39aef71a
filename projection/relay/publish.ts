import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { headers, type JetStreamClient, type NatsConnection } from "nats";
import { waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import { endWith, startSpan } from "../../shared/tracing/span.ts";
import type { Checkpoint } from "../checkpoints/checkpoint.ts";
import { type EventStream, JETSTREAM_OPTIONS } from "./event-stream.ts";
import type { InFlightTracker } from "./in-flight-tracker.ts";
import type { OutgoingMessage } from "./message.ts";
import type { QuarantineRecord } from "./quarantined-events.ts";

export interface EncodedMessage extends Omit<OutgoingMessage, "message"> {
  payload: Uint8Array;
}

/** An event whose message is being created. */
export interface PreparedEvent {
  /** Absent if the event was quarantined before. */
  checkpoint?: Checkpoint;
  /** Undefined if the event has no message. */
  message: Promise<EncodedMessage | undefined> | undefined;
  traceparent?: string | undefined;
  /** Present if the event was quarantined before. */
  quarantineRecord?: QuarantineRecord;
}

/** Maximum number of messages that are prepared or published together. */
export const MAX_PREPARED_MESSAGES = 256;

/** Limits the messages that the dispatchers have not acknowledged. */
const MAX_UNACKNOWLEDGED_MESSAGES = 10_000;

/** Interval at which the relay checks whether the dispatchers have acknowledged enough messages to continue. */
const ACKNOWLEDGEMENT_CHECK_INTERVAL_MS = 100;

/**
 * Publishes the messages of prepared events in order, until the buffer is closed. Each batch contains the messages that
 * are ready, and is confirmed before the next.
 *
 * @throws if the server did not store a message, or if a message could not be created. The messages before it are stored
 */
export async function publishMessages(
  connection: NatsConnection,
  stream: EventStream,
  preparedEvents: BoundedBuffer<PreparedEvent>,
  tracker: InFlightTracker<Checkpoint>,
  signal: AbortSignal,
): Promise<void> {
  const jsm = await connection.jetstreamManager(JETSTREAM_OPTIONS);
  const { delivered } = await jsm.consumers.info(stream.name, stream.consumerName);
  const publish = createPublisher(connection.jetstream(JETSTREAM_OPTIONS), delivered.stream_seq);
  const publishMessage = async (event: PreparedEvent, { id, subject, payload }: EncodedMessage): Promise<void> => {
    const onConfirmed = tracker.addPublishedEvent(event.checkpoint, event.quarantineRecord);
    const span = startSpan(`publish ${subject}`, "producer", event.traceparent);
    const sequence = publish(`${stream.subjectPrefix}.${subject}`, id, payload, span?.traceparent);
    if (span) endWith(span, sequence);
    onConfirmed(await sequence);
  };
  for (;;) {
    const events = await takeReadyEvents(preparedEvents);
    if (events.length === 0) return;
    const messageResults = await waitUnlessAborted(Promise.allSettled(events.map(({ message }) => message)), signal);
    if (!messageResults || signal.aborted) return;
    const failureIndex = messageResults.findIndex(({ status }) => status === "rejected");
    const readyCount = failureIndex < 0 ? events.length : failureIndex;
    const confirmations: Promise<void>[] = [];
    for (const [index, event] of events.slice(0, readyCount).entries()) {
      const messageResult = messageResults[index];
      if (messageResult?.status === "fulfilled" && messageResult.value)
        confirmations.push(publishMessage(event, messageResult.value));
      else if (event.checkpoint) tracker.addSkippedEvent(event.checkpoint);
    }
    await waitUnlessAborted(Promise.all(confirmations), signal);
    const failure = messageResults[failureIndex];
    if (failure?.status === "rejected") throw failure.reason;
    while (tracker.size >= MAX_UNACKNOWLEDGED_MESSAGES && !signal.aborted)
      await pause(ACKNOWLEDGEMENT_CHECK_INTERVAL_MS, signal);
  }
}

async function takeReadyEvents(preparedEvents: BoundedBuffer<PreparedEvent>): Promise<PreparedEvent[]> {
  const events = await preparedEvents.take(1);
  if (events.length === 0) return events;
  await nextTurn();
  return [...events, ...preparedEvents.takeNow(MAX_PREPARED_MESSAGES - 1)];
}

export const TRACEPARENT_HEADER = "traceparent";

const CONFIRM_TIMEOUT_MS = 5_000;

/**
 * Creates a function that publishes a message and returns the message's sequence number, once the server has stored it.
 * JetStream drops a second message with the same id.
 *
 * If the server drops a message because a dispatcher has already received it, the function sends the message with a new
 * id. The dispatcher's transaction can be lost in a failover of Postgres although the message is acknowledged.
 *
 * @param deliveredSequence sequence number of the last message that a dispatcher has received
 */
function createPublisher(jetStream: JetStreamClient, deliveredSequence: number) {
  let lastSequence = deliveredSequence;
  const send = async (subject: string, id: string, payload: Uint8Array, traceparent?: string) => {
    const messageHeaders = headers();
    if (traceparent !== undefined) messageHeaders.set(TRACEPARENT_HEADER, traceparent);
    const options = { msgID: id, headers: messageHeaders, timeout: CONFIRM_TIMEOUT_MS };
    const { seq: sequence, duplicate: isDuplicate } = await jetStream.publish(subject, payload, options);
    // After messages were lost, the stream assigns their numbers again. An acknowledgement of a lost message would then
    // look like an acknowledgement of a new message, or the other way round.
    if (!isDuplicate && sequence <= lastSequence) throw new Error("The JetStream stream has lost messages.");
    lastSequence = Math.max(lastSequence, sequence);
    return { sequence, isDuplicate };
  };
  return async (subject: string, id: string, payload: Uint8Array, traceparent?: string): Promise<number> => {
    const { sequence, isDuplicate } = await send(subject, id, payload, traceparent);
    if (!isDuplicate || sequence > deliveredSequence) return sequence;
    return (await send(subject, `${id} ${randomUUID()}`, payload, traceparent)).sequence;
  };
}
