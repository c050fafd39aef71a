import type { EventStoreDBClient } from "@eventstore/db-client";
import { JSONCodec, type JsMsg, type NatsConnection } from "nats";
import { z } from "zod";
import { LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { concernsOneStream, isLogAvailable } from "../../../shared/eventstore/stream-failure.ts";
import { readPosition } from "../../../shared/postgres/read-model-position.ts";
import { isLockTimeout, isStatementTimeout, isValueRefused } from "../../../shared/postgres/unavailable.ts";
import { runTaskGroup, waitUnlessAborted } from "../../../shared/runtime/abort.ts";
import { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { settlesWithin } from "../../../shared/runtime/timeout.ts";
import { checkTraceparent, type Span, startSpan } from "../../../shared/tracing/span.ts";
import { type EventStream, ensureEventStream, JETSTREAM_OPTIONS } from "../../relay/event-stream.ts";
import {
  type EventMessage,
  MESSAGE_VERSION,
  REPLAY_SUBJECT,
  type RelayMessage,
  type ReplayMessage,
  relayMessageSchema,
} from "../../relay/message.ts";
import { TRACEPARENT_HEADER } from "../../relay/publish.ts";
import { quarantineEvent } from "../../relay/quarantined-events.ts";
import { type ReplayDeps, type ReplayResult, replayDelivery } from "../replay/replay-delivery.ts";
import type { DueEndpoint } from "../schedule/due.ts";
import type { WebhooksSession } from "../session.ts";
import { type AddedDeliveries, addDeliveries, type MatchDeps } from "./match-event.ts";
import { consumeMessages, REDELIVERY_DELAY_MS, receiveMessages } from "./receive-messages.ts";

interface DispatcherOptions extends ReplayDeps, MatchDeps {
  client: EventStoreDBClient;
  stream: EventStream;
  session: WebhooksSession;
  onDue(endpoints: readonly DueEndpoint[]): void;
  onReplay(): void;
  onOutboxEvents(): void;
  /** Milliseconds since 1970. */
  clock(): number;
}

const MAX_BATCH_SIZE = 250;

/**
 * Maximum time that a message waits for the read models to include its event. After this time, NATS redelivers the
 * message.
 */
const CATCH_UP_TIMEOUT_MS = 2_000;

/** Time after which JetStream redelivers a postponed message. */
const POSTPONE_DELAY_MS = 10_000;

/** Time limit for each step of stopping: for the current batch, and for sending its acknowledgements. */
const FINISH_TIMEOUT_MS = 800;

interface ReceivedMessage<Message = EventMessage | ReplayMessage> {
  jetStreamMessage: JsMsg;
  message: Message;
  /** Span from the arrival of the message to its acknowledgement, if the message is traced. */
  span: Span | undefined;
}

/** Ends the processing of a message in one of two ways. */
interface Settle {
  acknowledge(message: ReceivedMessage): void;
  /**
   * Returns a message to the queue, because rows that it needs are locked, or the log does not answer for its stream.
   * Other messages do not wait for it.
   */
  postpone(message: ReceivedMessage, error: unknown): void;
}

/**
 * Turns messages into delivery rows until the connection to NATS ends. A message is acknowledged after its rows are
 * committed. If processing fails before the commit, NATS redelivers the message. A redelivered message does not add
 * duplicate rows. If a batch fails or the signal aborts, the dispatcher returns all messages that it has not processed,
 * so that NATS redelivers them soon. Events do not wait for replays.
 */
export async function runDispatcher(
  connection: NatsConnection,
  options: DispatcherOptions,
  markHealthy: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { stream } = options;
  await ensureEventStream(await connection.jetstreamManager(JETSTREAM_OPTIONS), stream, options.logger);
  const consumer = await connection.jetstream(JETSTREAM_OPTIONS).consumers.get(stream.name, stream.consumerName);
  const messages = await consumeMessages(consumer);
  const buffers = {
    events: new BoundedBuffer<JsMsg>(MAX_BATCH_SIZE),
    replays: new BoundedBuffer<JsMsg>(MAX_BATCH_SIZE),
  };
  markHealthy();
  const dispatchBatches = (buffer: BoundedBuffer<JsMsg>) => async (groupSignal: AbortSignal) => {
    for (;;) {
      const batch = await buffer.take(MAX_BATCH_SIZE);
      if (batch.length === 0) return;
      if (groupSignal.aborted) {
        for (const message of batch) message.nak();
        continue;
      }
      const batchPromise = dispatchBatch(batch, options, markHealthy, groupSignal);
      await waitUnlessAborted(batchPromise, groupSignal);
      if (groupSignal.aborted) await settlesWithin(batchPromise, FINISH_TIMEOUT_MS);
    }
  };
  try {
    const replaySubject = `${stream.subjectPrefix}.${REPLAY_SUBJECT}`;
    await runTaskGroup(signal, [
      (groupSignal) => receiveMessages(messages, { ...buffers, replaySubject }, groupSignal),
      dispatchBatches(buffers.events),
      dispatchBatches(buffers.replays),
    ]);
  } finally {
    // If a batch failed, the messages behind it are still buffered.
    const delayMs = getRedeliveryDelay(signal);
    for (const buffer of Object.values(buffers))
      for (const message of buffer.takeNow(MAX_BATCH_SIZE)) message.nak(delayMs);
    // If the server no longer responds, it redelivers the messages later.
    if (!connection.isClosed()) await settlesWithin(connection.flush(), FINISH_TIMEOUT_MS).catch(() => false);
  }
}

async function dispatchBatch(
  batch: readonly JsMsg[],
  options: DispatcherOptions,
  markHealthy: () => void,
  signal: AbortSignal,
): Promise<void> {
  const receivedMessages = batch.flatMap((jetStreamMessage) => parseMessage(jetStreamMessage, options.logger));
  const unacknowledgedMessages = new Set(receivedMessages);
  const settle: Settle = {
    acknowledge(message) {
      unacknowledgedMessages.delete(message);
      message.jetStreamMessage.ack();
      message.span?.end();
    },
    postpone(message, error) {
      const { kind, position } = message.message;
      options.logger.warn(
        { error, kind, position: String(position) },
        "A message waits, because its rows or its stream are not available.",
      );
      unacknowledgedMessages.delete(message);
      message.jetStreamMessage.nak(POSTPONE_DELAY_MS);
      message.span?.end("postponed");
    },
  };
  try {
    const position = await awaitReadModels(options, receivedMessages, signal);
    const readyMessages = receivedMessages.filter(({ message }) => message.position <= position);
    await dispatchEvents(readyMessages.filter(isEventMessage), options, settle);
    await dispatchReplays(readyMessages.filter(isReplayMessage), options, settle);
    markHealthy();
    const lateMessages = receivedMessages.filter(({ message }) => message.position > position);
    for (const message of signal.aborted ? [] : await findImpossible(options, lateMessages)) {
      unacknowledgedMessages.delete(message);
      message.jetStreamMessage.term();
      message.span?.end("impossible_position");
    }
  } finally {
    // The remaining messages were not processed, because the read models are behind, a server is unavailable or the
    // dispatcher stops.
    const delayMs = getRedeliveryDelay(signal);
    for (const { jetStreamMessage, span } of unacknowledgedMessages) {
      jetStreamMessage.nak(delayMs);
      span?.end("not_processed");
    }
  }
}

/**
 * Finds messages with positions behind the end of the log, which the read models can never include. Each would delay
 * every batch that contains it.
 */
async function findImpossible(
  { client, logger }: DispatcherOptions,
  lateMessages: readonly ReceivedMessage[],
): Promise<ReceivedMessage[]> {
  if (lateMessages.length === 0) return [];
  try {
    const logEnd = await readLogEnd(client, { requiresLeader: true });
    const impossibleMessages = lateMessages.filter(({ message }) => message.position > logEnd);
    for (const { jetStreamMessage, message } of impossibleMessages) {
      const { subject, seq: sequence } = jetStreamMessage;
      const position = String(message.position);
      logger.error({ subject, sequence, position }, "A message for a position behind the end of the log was removed.");
    }
    return impossibleMessages;
  } catch (error) {
    logger.debug({ error }, "Cannot check whether the event log contains the events of messages.");
    return [];
  }
}

/** Returns no delay if the dispatcher stops, so that another dispatcher gets the message at once. */
function getRedeliveryDelay(signal: AbortSignal): number {
  return signal.aborted ? 0 : REDELIVERY_DELAY_MS;
}

async function dispatchEvents(
  eventMessages: readonly ReceivedMessage<EventMessage>[],
  options: DispatcherOptions,
  settle: Settle,
): Promise<void> {
  if (eventMessages.length === 0) return;
  const addedDeliveries = await addOrDivide(eventMessages, options, settle);
  if (!addedDeliveries) return;
  const { dueEndpoints, outboxEventCount, unreadyEvents } = addedDeliveries;
  for (const event of eventMessages) if (!unreadyEvents.has(event.message)) settle.acknowledge(event);
  if (dueEndpoints.length > 0) options.onDue(dueEndpoints);
  if (outboxEventCount > 0) options.onOutboxEvents();
}

/**
 * Adds the deliveries of events. If Postgres refuses a value, a row is locked or the statement takes too long, dispatches
 * each half of the messages separately. The event of a single message with a refused value is quarantined, and one with
 * a locked row waits. An event has at most a few hundred deliveries, so if it takes too long on its own, Postgres is slow
 * for all events.
 */
async function addOrDivide(
  eventMessages: readonly ReceivedMessage<EventMessage>[],
  options: DispatcherOptions,
  settle: Settle,
): Promise<AddedDeliveries | undefined> {
  const events = eventMessages.map(({ message }) => message);
  try {
    return await addDeliveries(options, events, options.clock());
  } catch (error) {
    const [first] = eventMessages;
    const isLocked = isLockTimeout(error);
    if (!isValueRefused(error) && !isLocked && !(isStatementTimeout(error) && eventMessages.length > 1)) throw error;
    if (first && eventMessages.length === 1) {
      if (isLocked) {
        settle.postpone(first, error);
        return undefined;
      }
      const { position, stream, revision, body } = first.message;
      options.logger.error({ error, eventId: body.id }, "The deliveries of an event cannot be stored.");
      const event = { position, stream, revision, type: body.type };
      await quarantineEvent(options.pool, event, "Postgres refuses a value of the event's deliveries.");
      settle.acknowledge(first);
      return undefined;
    }
    const middle = Math.ceil(eventMessages.length / 2);
    await dispatchEvents(eventMessages.slice(0, middle), options, settle);
    await dispatchEvents(eventMessages.slice(middle), options, settle);
    return undefined;
  }
}

async function dispatchReplays(
  replayMessages: readonly ReceivedMessage<ReplayMessage>[],
  options: DispatcherOptions,
  settle: Settle,
): Promise<void> {
  for (const replayMessage of replayMessages) {
    try {
      const replayResult = await replayOrReject(options, replayMessage.message);
      settle.acknowledge(replayMessage);
      if (replayResult === "pending") options.onReplay();
      if (replayResult === "skipped" || replayResult === "expired") options.onOutboxEvents();
    } catch (error) {
      const isStreamUnavailable = error instanceof LogUnavailableError && (await isLogAvailable(options.log));
      if (!isLockTimeout(error) && !isStreamUnavailable) throw error;
      settle.postpone(replayMessage, error);
    }
  }
}

/**
 * Replays a delivery. If the event cannot be read or stored, the request is ignored, because a retry would fail again:
 * NATS would redeliver the message forever, and the relay's checkpoint could not advance.
 */
async function replayOrReject(options: DispatcherOptions, request: ReplayMessage): Promise<ReplayResult> {
  try {
    return await replayDelivery(options, request, options.clock());
  } catch (error) {
    if (!isValueRefused(error) && !(await concernsOneStream(options.log, error))) throw error;
    const { deliveryId, requestId } = request;
    options.logger.error(
      { error, deliveryId, requestId },
      "A delivery was not replayed, because its event cannot be read or stored.",
    );
    return "ignored";
  }
}

function isEventMessage(receivedMessage: ReceivedMessage): receivedMessage is ReceivedMessage<EventMessage> {
  return receivedMessage.message.kind === "event";
}

function isReplayMessage(receivedMessage: ReceivedMessage): receivedMessage is ReceivedMessage<ReplayMessage> {
  return receivedMessage.message.kind === "replay";
}

const messageCodec = JSONCodec<unknown>();

const versionSchema = z.object({ version: z.int() });

/**
 * A message of a newer release returns to the queue, until a process of that release gets it. Any other unreadable
 * message is logged and removed from the stream, because no retry can succeed.
 */
function parseMessage(jetStreamMessage: JsMsg, logger: Logger): ReceivedMessage[] {
  const { data, subject, seq: sequence } = jetStreamMessage;
  try {
    const content = messageCodec.decode(data);
    if (versionSchema.parse(content).version > MESSAGE_VERSION) {
      jetStreamMessage.nak(REDELIVERY_DELAY_MS);
      return [];
    }
    const message = relayMessageSchema.parse(content);
    const span = startMatchSpan(jetStreamMessage, message.kind);
    return [{ jetStreamMessage, message: { ...message, traceparent: span?.traceparent }, span }];
  } catch (error) {
    logger.error({ error, subject, sequence }, "An unreadable message was removed from the stream.");
    // Servers of version 2.9 ignore a termination with a reason.
    jetStreamMessage.term();
    return [];
  }
}

function startMatchSpan({ headers, info }: JsMsg, kind: RelayMessage["kind"]): Span | undefined {
  const traceparent = headers?.get(TRACEPARENT_HEADER);
  if (!traceparent) return undefined;
  const name = kind === "event" ? "match endpoints" : "replay delivery";
  const attributes = { "messaging.delivery_count": info.redeliveryCount };
  return startSpan(name, "consumer", checkTraceparent(traceparent), attributes);
}

/**
 * Waits until the read models include the newest message's event, and therefore every endpoint that was registered
 * before that event. Stops waiting at the time limit.
 *
 * @returns log position of the read models
 */
async function awaitReadModels(
  { pool, session }: DispatcherOptions,
  receivedMessages: readonly ReceivedMessage[],
  signal: AbortSignal,
): Promise<bigint> {
  const positions = receivedMessages.map(({ message }) => message.position);
  const newestPosition = positions.reduce((highest, position) => (position > highest ? position : highest), 0n);
  const waitPromise = session.waitForPosition(newestPosition, CATCH_UP_TIMEOUT_MS);
  return (await waitUnlessAborted(waitPromise, signal)) ? newestPosition : readPosition(pool);
}
