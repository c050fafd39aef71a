import { setImmediate as nextTurn } from "node:timers/promises";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { JSONCodec, type NatsConnection } from "nats";
import type pg from "pg";
import { createEventLog, type EventLog, type RecordedEvent } from "../../shared/eventstore/log.ts";
import { catchUp, type LogPosition, UnreadableEvent } from "../../shared/eventstore/subscription.ts";
import { untilAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import { runTaskGroup } from "../../shared/runtime/task-group.ts";
import type { Anchor, Checkpoint } from "../checkpoints/checkpoint.ts";
import { LOG_START, moveRelayCheckpoint, readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { requireSameLog } from "../checkpoints/same-log.ts";
import { isParked, PARKING_STREAM, readParked } from "../parking/parked-streams.ts";
import { type EventStream, ensureEventStream } from "./event-stream.ts";
import { Ledger } from "./ledger.ts";
import type { Outgoing } from "./message.ts";
import { createPublisher } from "./publisher.ts";
import { RelayFailure, relayedCategories, toMessage } from "./to-message.ts";

export interface RelayRunOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  stream: EventStream;
  onProgress(progress: { position: bigint; caughtUp: boolean }): void;
  /** Told of each event that is taken from the log. */
  onTaken(): void;
}

/** An event that cannot be told. The relay stops there: what comes after must not overtake it. */
export class RelayStopped extends Error {
  override readonly name = "RelayStopped";
  readonly place: LogPosition;

  constructor(place: LogPosition, cause: RelayFailure | UnreadableEvent) {
    super(cause.message, { cause });
    this.place = place;
  }
}

/** Events whose message is being made, and messages that the server has not yet confirmed. */
const MAPPING = 256;
const IN_FLIGHT = 1_024;

/** Messages that the dispatchers have not dealt with; more are left in the log. */
const OUTSTANDING = 10_000;

/** Milliseconds. */
const SETTLE_EVERY = 100;

/** A step of the log, in order; the message is still being made. */
interface Step {
  at: Anchor;
  message: Promise<Outgoing | undefined> | undefined;
}

/**
 * Relays for as long as one connection to NATS lives, from the checkpoint on. The checkpoint follows what the
 * dispatchers have acked, not what was published: whatever NATS loses is published again from the log.
 *
 * @throws {RelayStopped} for an event that cannot be told
 * @throws {LostCheckpoint} if another process relays
 * @throws {DifferentLog} if the log is not the one behind the checkpoint
 */
export async function runRelay(
  connection: NatsConnection,
  options: RelayRunOptions,
  signal: AbortSignal,
): Promise<void> {
  await requireSameLog(options);
  await ensureEventStream(await connection.jetstreamManager(), options.stream);
  const checkpoint = await readRelayCheckpoint(options.pool);
  const ledger = new Ledger<Checkpoint>(checkpoint);
  const steps = new BoundedBuffer<Step>(MAPPING);
  const confirmations = new BoundedBuffer<Confirmation>(IN_FLIGHT);
  let caughtUp = false;
  const report = () => options.onProgress({ position: ledger.settled.position, caughtUp });
  report();
  await runTaskGroup(signal, [
    (life) => follow(options, checkpoint.position, steps, becomeCaughtUp, life),
    (life) => publish(connection, options.stream, steps, confirmations, ledger, life),
    (life) => confirm(confirmations, life),
    (life) => settle(connection, options, ledger, report, life),
  ]);

  function becomeCaughtUp(): void {
    caughtUp = true;
    report();
  }
}

/** Fills the buffer with the log's steps; the messages of several are made at once. */
async function follow(
  options: RelayRunOptions,
  checkpoint: bigint,
  steps: BoundedBuffer<Step>,
  onCaughtUp: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { client, onTaken } = options;
  const log = createEventLog(client);
  const after = checkpoint === LOG_START ? undefined : checkpoint;
  signal.addEventListener("abort", () => steps.close(), { once: true });
  if (signal.aborted) steps.close();
  let parked = await readParked(log);
  const isSkipped = (stream: string, revision: bigint) => isParked(parked, "relay", { stream, revision });
  const push = (step: Step) => {
    // A message is awaited in its turn; until then a failure must not count as unhandled.
    step.message?.catch(() => undefined);
    return steps.push(step);
  };
  let confirmed = false;
  try {
    for await (const item of catchUp({ client, after, categories: relayedCategories, isSkipped, signal })) {
      // The log may have been exchanged between the first check and the subscription.
      if (!confirmed) await requireSameLog(options);
      confirmed = true;
      if (item.kind === "caughtUp") onCaughtUp();
      if (item.kind !== "event" && item.kind !== "skipped") continue;
      const at = { position: item.position, eventId: item.kind === "event" ? item.event.id : item.id };
      const act = item.kind === "event" && item.event.stream === PARKING_STREAM;
      if (act) parked = await readParked(log);
      else onTaken();
      const message = item.kind === "event" && !act ? messageOf(log, item.event) : undefined;
      await push({ at, message });
    }
  } catch (error) {
    if (!(error instanceof UnreadableEvent)) throw error;
    const at = { position: error.place.position, eventId: error.id };
    await push({ at, message: Promise.reject(new RelayStopped(error.place, error)) });
    await untilAborted(new Promise(() => undefined), signal);
  }
  if (!signal.aborted) throw new Error("the event log ended the subscription");
}

async function messageOf(log: EventLog, event: RecordedEvent): Promise<Outgoing | undefined> {
  try {
    return await toMessage(log, event);
  } catch (error) {
    throw error instanceof RelayFailure ? new RelayStopped(event, error) : error;
  }
}

const codec = JSONCodec();

/** A message on its way to the server. */
type Confirmation = Promise<void>;

/**
 * Publishes in the log's order, some hundred unconfirmed at a time. What has gathered goes out together: a write to the
 * socket for each message costs more than the message.
 */
async function publish(
  connection: NatsConnection,
  stream: EventStream,
  steps: BoundedBuffer<Step>,
  confirmations: BoundedBuffer<Confirmation>,
  ledger: Ledger<Checkpoint>,
  signal: AbortSignal,
): Promise<void> {
  const publisher = createPublisher(connection, signal);
  const send = ({ at }: Step, { id, subject, message }: Outgoing): Confirmation => {
    const confirmed = ledger.publish(placeOf(at));
    const confirmation = publisher
      .publish(`${stream.prefix}.${subject}`, id, codec.encode(message))
      .then(confirmed);
    // It is awaited in its turn; until then a failure must not count as unhandled.
    confirmation.catch(() => undefined);
    return confirmation;
  };
  signal.addEventListener("abort", () => confirmations.close(), { once: true });
  if (signal.aborted) confirmations.close();
  for (;;) {
    const taken = await gather(steps);
    if (taken.length === 0) return;
    const made = await untilAborted(Promise.allSettled(taken.map(({ message }) => message)), signal);
    if (!made || signal.aborted) return;
    const sent: Confirmation[] = [];
    for (const [index, step] of taken.entries()) {
      const result = made[index];
      if (result?.status === "rejected") {
        // What stands before an event that cannot be told is told.
        await connection.flush();
        throw result.reason;
      }
      if (result?.value) sent.push(send(step, result.value));
      else ledger.skip(placeOf(step.at));
    }
    for (const confirmation of sent) await confirmations.push(confirmation);
    while (ledger.size >= OUTSTANDING && !signal.aborted) await pause(SETTLE_EVERY, signal);
  }
}

function placeOf(at: Anchor): Checkpoint {
  return { position: at.position, anchor: at };
}

/** What has come by the event loop's next turn: steps come one by one, many within a turn. */
async function gather(steps: BoundedBuffer<Step>): Promise<Step[]> {
  const taken = await steps.take(1);
  if (taken.length === 0) return taken;
  await nextTurn();
  return [...taken, ...steps.takeNow(MAPPING - 1)];
}

/** Finds out which messages the server has; one that it has not ends the run. */
async function confirm(confirmations: BoundedBuffer<Confirmation>, signal: AbortSignal): Promise<void> {
  for (;;) {
    const [confirmation] = await confirmations.take(1);
    if (!confirmation) return;
    await untilAborted(confirmation, signal);
  }
}

/** Moves the checkpoint after the dispatchers' acks. */
async function settle(
  connection: NatsConnection,
  { pool, stream }: RelayRunOptions,
  ledger: Ledger<Checkpoint>,
  report: () => void,
  signal: AbortSignal,
): Promise<void> {
  const jsm = await connection.jetstreamManager();
  let stored = ledger.settled;
  while (!signal.aborted) {
    await pause(SETTLE_EVERY, signal);
    if (ledger.size > 0) {
      const { ack_floor } = await jsm.consumers.info(stream.name, stream.consumer);
      ledger.settle(ack_floor.stream_seq);
    }
    const { settled } = ledger;
    if (settled === stored || !settled.anchor) continue;
    await moveRelayCheckpoint(pool, stored, settled.anchor);
    stored = settled;
    report();
  }
}
