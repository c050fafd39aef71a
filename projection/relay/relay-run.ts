import { setImmediate as nextTurn } from "node:timers/promises";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { JSONCodec, type NatsConnection } from "nats";
import type pg from "pg";
import { createEventLog, type EventLog, type RecordedEvent } from "../../shared/eventstore/log.ts";
import {
  type LogPosition,
  subscribeToLog,
  UnreadableEventError,
} from "../../shared/eventstore/subscription.ts";
import { untilAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import { runTaskGroup } from "../../shared/runtime/task-group.ts";
import type { Anchor, Checkpoint } from "../checkpoints/checkpoint.ts";
import { LOG_START, moveRelayCheckpoint, readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { requireSameLog } from "../checkpoints/same-log.ts";
import { isParked, PARKING_STREAM, readParked } from "../parking/parked-streams.ts";
import { type EventStream, ensureEventStream } from "./event-stream.ts";
import { InFlightTracker } from "./in-flight-tracker.ts";
import type { OutgoingMessage } from "./message.ts";
import { createPublisher } from "./publisher.ts";
import { RelayError, relayedCategories, toMessage } from "./to-message.ts";

export interface RelayRunOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  stream: EventStream;
  onProgress(progress: { position: bigint; caughtUp: boolean }): void;
  /** Called for each event that is read from the log. */
  onTaken(): void;
}

/** The relay cannot send an event. It stops there, because later events must not overtake it. */
export class RelayStoppedError extends Error {
  override readonly name = "RelayStoppedError";
  readonly place: LogPosition;

  constructor(place: LogPosition, cause: RelayError | UnreadableEventError) {
    super(cause.message, { cause });
    this.place = place;
  }
}

/** Most events whose message is being created, and most messages that the server has not confirmed. */
const MAX_MAPPING = 256;
const MAX_UNCONFIRMED = 1_024;

/** Most messages that the dispatchers have not acknowledged. */
const MAX_OUTSTANDING = 10_000;

/** Milliseconds. */
const SETTLE_INTERVAL_MS = 100;

/** One event of the log, in order. Its message may still be in preparation. */
interface Step {
  at: Anchor;
  message: Promise<OutgoingMessage | undefined> | undefined;
}

/**
 * Relays events from the checkpoint on, until the connection to NATS ends. The checkpoint follows the acknowledgements of
 * the dispatchers, not the publications. So messages that NATS loses are published again from the log.
 *
 * @throws {RelayStoppedError} for an event that cannot be sent
 * @throws {CheckpointLostError} if another process moved the checkpoint
 * @throws {DifferentLogError} if the checkpoint belongs to another log
 */
export async function runRelay(
  connection: NatsConnection,
  options: RelayRunOptions,
  signal: AbortSignal,
): Promise<void> {
  await requireSameLog(options);
  await ensureEventStream(await connection.jetstreamManager(), options.stream);
  const checkpoint = await readRelayCheckpoint(options.pool);
  const inFlight = new InFlightTracker<Checkpoint>(checkpoint);
  const steps = new BoundedBuffer<Step>(MAX_MAPPING);
  const confirmations = new BoundedBuffer<Confirmation>(MAX_UNCONFIRMED);
  let caughtUp = false;
  const report = () => options.onProgress({ position: inFlight.settled.position, caughtUp });
  report();
  await runTaskGroup(signal, [
    (life) => follow(options, checkpoint.position, steps, becomeCaughtUp, life),
    (life) => publish(connection, options.stream, steps, confirmations, inFlight, life),
    (life) => confirm(confirmations, life),
    (life) => settle(connection, options, inFlight, report, life),
  ]);

  function becomeCaughtUp(): void {
    caughtUp = true;
    report();
  }
}

/** Fills the buffer with events of the log. Several messages are prepared at the same time. */
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
    // Messages are awaited in order. Until then, a failure must not count as unhandled.
    step.message?.catch(() => undefined);
    return steps.push(step);
  };
  let confirmed = false;
  try {
    for await (const item of subscribeToLog({
      client,
      after,
      categories: relayedCategories,
      isSkipped,
      signal,
    })) {
      // The log may have been replaced between the first check and the subscription.
      if (!confirmed) await requireSameLog(options);
      confirmed = true;
      if (item.kind === "caughtUp") onCaughtUp();
      if (item.kind !== "event" && item.kind !== "skipped") continue;
      const at = { position: item.position, eventId: item.kind === "event" ? item.event.id : item.id };
      const isParkingEvent = item.kind === "event" && item.event.stream === PARKING_STREAM;
      if (isParkingEvent) parked = await readParked(log);
      else onTaken();
      const message = item.kind === "event" && !isParkingEvent ? messageOf(log, item.event) : undefined;
      await push({ at, message });
    }
  } catch (error) {
    if (!(error instanceof UnreadableEventError)) throw error;
    const at = { position: error.logPosition.position, eventId: error.id };
    await push({ at, message: Promise.reject(new RelayStoppedError(error.logPosition, error)) });
    await untilAborted(new Promise(() => undefined), signal);
  }
  if (!signal.aborted) throw new Error("The event log ended the subscription.");
}

async function messageOf(log: EventLog, event: RecordedEvent): Promise<OutgoingMessage | undefined> {
  try {
    return await toMessage(log, event);
  } catch (error) {
    throw error instanceof RelayError ? new RelayStoppedError(event, error) : error;
  }
}

const codec = JSONCodec();

/** Resolves when the server has stored a message. */
type Confirmation = Promise<void>;

/**
 * Publishes messages in the order of the log, with a limited number unconfirmed. Messages that are ready together are sent
 * together, because a socket write for each message costs more than the message.
 */
async function publish(
  connection: NatsConnection,
  stream: EventStream,
  steps: BoundedBuffer<Step>,
  confirmations: BoundedBuffer<Confirmation>,
  inFlight: InFlightTracker<Checkpoint>,
  signal: AbortSignal,
): Promise<void> {
  const publisher = createPublisher(connection, signal);
  const send = ({ at }: Step, { id, subject, message }: OutgoingMessage): Confirmation => {
    const confirmed = inFlight.publish(checkpointAt(at));
    const confirmation = publisher
      .publish(`${stream.prefix}.${subject}`, id, codec.encode(message))
      .then(confirmed);
    // Confirmations are awaited in order. Until then, a failure must not count as unhandled.
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
        // Messages before the failed event must still reach the server.
        await connection.flush();
        throw result.reason;
      }
      if (result?.value) sent.push(send(step, result.value));
      else inFlight.skip(checkpointAt(step.at));
    }
    for (const confirmation of sent) await confirmations.push(confirmation);
    while (inFlight.size >= MAX_OUTSTANDING && !signal.aborted) await pause(SETTLE_INTERVAL_MS, signal);
  }
}

function checkpointAt(at: Anchor): Checkpoint {
  return { position: at.position, anchor: at };
}

/** Takes all steps that arrive by the next turn of the event loop. */
async function gather(steps: BoundedBuffer<Step>): Promise<Step[]> {
  const taken = await steps.take(1);
  if (taken.length === 0) return taken;
  await nextTurn();
  return [...taken, ...steps.takeNow(MAX_MAPPING - 1)];
}

/** Waits for the confirmations in order. A message that the server did not store ends the run. */
async function confirm(confirmations: BoundedBuffer<Confirmation>, signal: AbortSignal): Promise<void> {
  for (;;) {
    const [confirmation] = await confirmations.take(1);
    if (!confirmation) return;
    await untilAborted(confirmation, signal);
  }
}

/** Moves the checkpoint to the last event whose messages are acknowledged. */
async function settle(
  connection: NatsConnection,
  { pool, stream }: RelayRunOptions,
  inFlight: InFlightTracker<Checkpoint>,
  report: () => void,
  signal: AbortSignal,
): Promise<void> {
  const jsm = await connection.jetstreamManager();
  let stored = inFlight.settled;
  while (!signal.aborted) {
    await pause(SETTLE_INTERVAL_MS, signal);
    if (inFlight.size > 0) {
      const { ack_floor } = await jsm.consumers.info(stream.name, stream.consumer);
      inFlight.settle(ack_floor.stream_seq);
    }
    const { settled } = inFlight;
    if (settled === stored || !settled.anchor) continue;
    await moveRelayCheckpoint(pool, stored, settled.anchor);
    stored = settled;
    report();
  }
}
