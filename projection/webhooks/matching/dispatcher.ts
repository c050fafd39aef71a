import { JSONCodec, type JsMsg, type NatsConnection } from "nats";
import type pg from "pg";
import { EventSchemaError } from "../../../shared/domain/events/stored-event.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { untilAborted } from "../../../shared/runtime/abort.ts";
import { pause } from "../../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { runTaskGroup } from "../../../shared/runtime/task-group.ts";
import { READ_MODEL_SCHEMA, readPosition } from "../../checkpoints/checkpoint.ts";
import { type EventStream, ensureEventStream } from "../../relay/event-stream.ts";
import { type EventMessage, type ReplayMessage, relayMessage } from "../../relay/message.ts";
import type { DueEndpoint } from "../scheduling/due-endpoints.ts";
import { addDeliveries } from "./match.ts";
import { type Replayed, replay } from "./replay.ts";

export interface DispatcherOptions {
  pool: pg.Pool;
  log: EventLog;
  /** Throws an error if the database was not built from this log. */
  requireLog(): Promise<void>;
  stream: EventStream;
  logger: Logger;
  /** Called with endpoints that have new deliveries to send. */
  onDue(endpoints: readonly DueEndpoint[]): void;
  /** Called when a replay makes a delivery due. */
  onReplay(): void;
  /** Called when facts were added to the outbox. */
  onFacts(): void;
  /** Milliseconds since 1970. */
  clock(): number;
}

/** Maximum number of messages that NATS sends ahead. */
const MAX_PREFETCHED = 500;

/** Maximum number of messages in one transaction. */
const MAX_BATCH = 250;

/** Time for the read models to catch up with a message. Later, the message is redelivered. Milliseconds. */
const CATCH_UP_TIMEOUT_MS = 2_000;

/** Pause between two reads of the read models' position. Milliseconds. */
const POLL_INTERVAL_MS = 5;

/** Delay before NATS redelivers a message that was not processed. Milliseconds. */
const REDELIVERY_DELAY_MS = 1_000;

interface Received<Message> {
  from: JsMsg;
  message: Message;
}

/** Acknowledges a message whose effects are committed. */
type Done = (received: Received<EventMessage | ReplayMessage>) => void;

/**
 * Turns messages into delivery rows until the connection to NATS ends. A message is acknowledged after its rows are
 * committed. If a step fails earlier, NATS redelivers the message. The rows are still inserted only once.
 */
export async function runDispatcher(
  connection: NatsConnection,
  options: DispatcherOptions,
  markHealthy: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { stream } = options;
  await ensureEventStream(await connection.jetstreamManager(), stream);
  const consumer = await connection.jetstream().consumers.get(stream.name, stream.consumer);
  const messages = await consumer.consume({
    max_messages: MAX_PREFETCHED,
    expires: 10_000,
    idle_heartbeat: 2_000,
    abort_on_missing_resource: true,
  });
  const buffer = new BoundedBuffer<JsMsg>(MAX_BATCH);
  markHealthy();
  const take = async (life: AbortSignal) => {
    const stop = () => {
      buffer.close();
      messages.stop();
    };
    life.addEventListener("abort", stop);
    if (life.aborted) stop();
    for await (const message of messages) await buffer.push(message);
    if (!life.aborted) throw new Error("The JetStream consumer was removed.");
  };
  const dispatch = async (life: AbortSignal) => {
    for (;;) {
      const received = await buffer.take(MAX_BATCH);
      if (received.length === 0 || life.aborted) return;
      await untilAborted(dispatchBatch(received, options, markHealthy, life), life);
    }
  };
  await runTaskGroup(signal, [take, dispatch]);
}

async function dispatchBatch(
  received: readonly JsMsg[],
  options: DispatcherOptions,
  markHealthy: () => void,
  signal: AbortSignal,
): Promise<void> {
  const readable = received.flatMap((from) => read(from, options.logger));
  const unsettled = new Set(readable);
  const done = (one: Received<EventMessage | ReplayMessage>) => {
    unsettled.delete(one);
    one.from.ack();
  };
  try {
    const position = await caughtUpTo(options.pool, readable, signal);
    const ready = readable.filter(({ message }) => message.position <= position);
    await dispatchEvents(ready.filter(isEvent), options, done);
    await dispatchReplays(ready.filter(isReplay), options, done);
    markHealthy();
  } finally {
    // For these messages, the read models are behind or a server is unavailable.
    for (const { from } of unsettled) from.nak(REDELIVERY_DELAY_MS);
  }
}

async function dispatchEvents(
  events: readonly Received<EventMessage>[],
  options: DispatcherOptions,
  done: Done,
): Promise<void> {
  if (events.length === 0) return;
  const messages = events.map(({ message }) => message);
  const { due, facts } = await addDeliveries(options.pool, messages, options.clock());
  for (const event of events) done(event);
  if (due.length > 0) options.onDue(due);
  if (facts > 0) options.onFacts();
}

async function dispatchReplays(
  requests: readonly Received<ReplayMessage>[],
  options: DispatcherOptions,
  done: Done,
): Promise<void> {
  for (const request of requests) {
    const replayed = await replayOrReject(options, request.message);
    done(request);
    if (replayed === "pending") options.onReplay();
    if (replayed === "skipped" || replayed === "expired") options.onFacts();
  }
}

/**
 * Replays a delivery. If this release cannot read the event, the request ends without a replay. Otherwise NATS would
 * redeliver the message forever, and the relay's checkpoint could not advance.
 */
async function replayOrReject(options: DispatcherOptions, request: ReplayMessage): Promise<Replayed> {
  try {
    return await replay(options, request, options.clock());
  } catch (error) {
    if (!(error instanceof EventSchemaError)) throw error;
    const { deliveryId, requestId } = request;
    options.logger.error(
      { error, deliveryId, requestId },
      "A delivery was not replayed, because its event is unreadable.",
    );
    return "ignored";
  }
}

function isEvent(received: Received<EventMessage | ReplayMessage>): received is Received<EventMessage> {
  return received.message.kind === "event";
}

function isReplay(received: Received<EventMessage | ReplayMessage>): received is Received<ReplayMessage> {
  return received.message.kind === "replay";
}

const codec = JSONCodec<unknown>();

/** Parses a message. Logs an unreadable message and removes it from the stream, because no retry can succeed. */
function read(from: JsMsg, logger: Logger): Received<EventMessage | ReplayMessage>[] {
  try {
    return [{ from, message: relayMessage.parse(codec.decode(from.data)) }];
  } catch (error) {
    logger.error(
      { error, subject: from.subject, sequence: from.seq },
      "An unreadable message was removed from the stream.",
    );
    from.term("unreadable");
    return [];
  }
}

/**
 * Waits until the read models have processed the newest message's event, or until the time limit. Then the read models hold
 * every endpoint that was registered before the event.
 *
 * @returns log position of the read models
 */
async function caughtUpTo(
  pool: pg.Pool,
  received: readonly Received<{ position: bigint }>[],
  signal: AbortSignal,
): Promise<bigint> {
  const newest = received.reduce(
    (most, { message }) => (message.position > most ? message.position : most),
    0n,
  );
  const until = performance.now() + CATCH_UP_TIMEOUT_MS;
  for (;;) {
    const position = await readPosition(pool, READ_MODEL_SCHEMA);
    if (position >= newest || performance.now() > until || signal.aborted) return position;
    await pause(POLL_INTERVAL_MS, signal);
  }
}
