import { JSONCodec, type JsMsg, type NatsConnection } from "nats";
import type pg from "pg";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { untilAborted } from "../../../shared/runtime/abort.ts";
import { pause } from "../../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { runTaskGroup } from "../../../shared/runtime/task-group.ts";
import { READ_MODEL_SCHEMA, readCheckpoint } from "../../checkpoints/checkpoint.ts";
import { type EventStream, ensureEventStream } from "../../relay/event-stream.ts";
import { type EventMessage, type ReplayMessage, relayMessage } from "../../relay/message.ts";
import type { DueEndpoint } from "../scheduling/due-endpoints.ts";
import { addDeliveries } from "./match.ts";
import { replay } from "./replay.ts";

export interface DispatcherOptions {
  pool: pg.Pool;
  log: EventLog;
  /** Checks that the log is the one that the database was built from. */
  requireLog(): Promise<void>;
  stream: EventStream;
  logger: Logger;
  /** Called with endpoints that have new deliveries to send. */
  onDue(endpoints: readonly DueEndpoint[]): void;
  /** Called when a delivery is to be sent again. */
  onReplay(): void;
  /** Called when facts for the log were kept. */
  onFacts(): void;
  /** Milliseconds since 1970. */
  clock(): number;
}

/** Messages taken from the server ahead of the work, and messages in one transaction. */
const AHEAD = 500;
const BATCH = 250;

/** The read models have this long to catch up with a message; then it is given back for so long. Milliseconds. */
const CATCH_UP_WITHIN = 2_000;
const ASK_EVERY = 5;
const GIVEN_BACK_FOR = 1_000;

interface Received<Message> {
  from: JsMsg;
  message: Message;
}

/** Takes a message off the stream: what follows from it is committed. */
type Done = (received: Received<EventMessage | ReplayMessage>) => void;

/**
 * Turns messages into delivery rows for as long as one connection to NATS lives. A message is acked when its rows are
 * committed; whatever goes wrong before that, it comes again, and its rows are made once.
 */
export async function runDispatcher(
  connection: NatsConnection,
  options: DispatcherOptions,
  works: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { stream } = options;
  await ensureEventStream(await connection.jetstreamManager(), stream);
  const consumer = await connection.jetstream().consumers.get(stream.name, stream.consumer);
  const messages = await consumer.consume({
    max_messages: AHEAD,
    expires: 10_000,
    idle_heartbeat: 2_000,
    abort_on_missing_resource: true,
  });
  const buffer = new BoundedBuffer<JsMsg>(BATCH);
  works();
  const take = async (life: AbortSignal) => {
    const stop = () => {
      buffer.close();
      messages.stop();
    };
    life.addEventListener("abort", stop);
    if (life.aborted) stop();
    for await (const message of messages) await buffer.push(message);
    if (!life.aborted) throw new Error("the consumer went away");
  };
  const dispatch = async (life: AbortSignal) => {
    for (;;) {
      const received = await buffer.take(BATCH);
      if (received.length === 0 || life.aborted) return;
      await untilAborted(dispatchBatch(received, options, works, life), life);
    }
  };
  await runTaskGroup(signal, [take, dispatch]);
}

async function dispatchBatch(
  received: readonly JsMsg[],
  options: DispatcherOptions,
  works: () => void,
  signal: AbortSignal,
): Promise<void> {
  const readable = received.flatMap((from) => read(from, options.logger));
  const open = new Set(readable);
  const done = (one: Received<EventMessage | ReplayMessage>) => {
    open.delete(one);
    one.from.ack();
  };
  try {
    const position = await caughtUpTo(options.pool, readable, signal);
    const ready = readable.filter(({ message }) => message.position <= position);
    await dispatchEvents(ready.filter(isEvent), options, done);
    await dispatchReplays(ready.filter(isReplay), options, done);
    works();
  } finally {
    // Too early, or something is out of reach: it comes again when that had time to pass.
    for (const { from } of open) from.nak(GIVEN_BACK_FOR);
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
    const replayed = await replay(options, request.message, options.clock());
    done(request);
    if (replayed === "pending") options.onReplay();
    if (replayed === "skipped" || replayed === "expired") options.onFacts();
  }
}

function isEvent(received: Received<EventMessage | ReplayMessage>): received is Received<EventMessage> {
  return received.message.kind === "event";
}

function isReplay(received: Received<EventMessage | ReplayMessage>): received is Received<ReplayMessage> {
  return received.message.kind === "replay";
}

const codec = JSONCodec<unknown>();

/** A message that is not the relay's is taken off the stream, on record in the log file: it will never be readable. */
function read(from: JsMsg, logger: Logger): Received<EventMessage | ReplayMessage>[] {
  try {
    return [{ from, message: relayMessage.parse(codec.decode(from.data)) }];
  } catch (error) {
    logger.error({ error, subject: from.subject, sequence: from.seq }, "an unreadable message is taken off");
    from.term("unreadable");
    return [];
  }
}

/**
 * Waits until the read models reflect the newest of the messages, or for as long as they may take: an endpoint that
 * was registered before an event is known by then.
 *
 * @returns the position that they reflect
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
  const until = performance.now() + CATCH_UP_WITHIN;
  for (;;) {
    const position = await readCheckpoint(pool, READ_MODEL_SCHEMA);
    if (position >= newest || performance.now() > until || signal.aborted) return position;
    await pause(ASK_EVERY, signal);
  }
}
