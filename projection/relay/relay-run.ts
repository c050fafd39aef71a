import { setImmediate as nextTurn } from "node:timers/promises";
import { JSONCodec, type NatsConnection } from "nats";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { createEventLog, type EventLog } from "../../shared/eventstore/log.ts";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import { type LogPosition, subscribeToLog, UnreadableEventError } from "../../shared/eventstore/subscription.ts";
import { onAbort, runTaskGroup, waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { endWith, startSpan } from "../../shared/tracing/span.ts";
import type { Checkpoint, EventCheckpoint } from "../checkpoints/checkpoint.ts";
import { moveRelayCheckpoint, readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { type LogAndDatabase, requireSameLog } from "../checkpoints/same-log.ts";
import { isQuarantined, QUARANTINE_STREAM, readQuarantineDecisions } from "../quarantine/decisions.ts";
import type { JetStreamBacklog } from "../roles/role.ts";
import { type EventStream, ensureEventStream, JETSTREAM_OPTIONS } from "./event-stream.ts";
import { InFlightTracker } from "./in-flight-tracker.ts";
import type { OutgoingMessage } from "./message.ts";
import { createPublisher } from "./publisher.ts";
import { RelayError, relayedCategories, toMessage } from "./to-message.ts";

export interface RelayProgress {
  position: bigint;
  isCaughtUp: boolean;
  backlog: JetStreamBacklog;
}

interface RelayRunOptions extends LogAndDatabase {
  stream: EventStream;
  logger: Logger;
  onProgress(progress: RelayProgress): void;
  onEventRead(): void;
}

/** The relay cannot send an event. The relay stops at this event, because events must be sent in order. */
export class RelayStoppedError extends Error {
  override readonly name = "RelayStoppedError";
  readonly failedEventPosition: LogPosition;

  constructor(failedEventPosition: LogPosition, cause: RelayError | UnreadableEventError) {
    super(cause.message, { cause });
    this.failedEventPosition = failedEventPosition;
  }
}

const MAX_PREPARED_MESSAGES = 256;

/** Limits the messages that the NATS server has not confirmed. */
const MAX_UNCONFIRMED_MESSAGES = 1_024;

/** Limits the messages that the dispatchers have not acknowledged. */
const MAX_UNACKNOWLEDGED_MESSAGES = 10_000;

/** Interval at which the relay reads the acknowledgements and moves the checkpoint. */
const CHECKPOINT_INTERVAL_MS = 100;

/**
 * Time after which a message counts as lost if the stream neither holds it nor reports its acknowledgement. Servers of a
 * cluster may report different states for a moment.
 */
const LOSS_TIMEOUT_MS = 5_000;

interface PreparedEvent {
  checkpoint: EventCheckpoint;
  message: Promise<OutgoingMessage | undefined> | undefined;
  traceparent?: string | undefined;
}

/**
 * Relays events from the checkpoint on, until the connection to NATS ends. The checkpoint moves when the dispatchers
 * acknowledge messages, not when the relay publishes them. If NATS loses messages, the relay can therefore read their
 * events from the log and publish them again.
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
  await ensureEventStream(await connection.jetstreamManager(JETSTREAM_OPTIONS), options.stream, options.logger);
  const checkpoint = await readRelayCheckpoint(options.pool);
  const tracker = new InFlightTracker<Checkpoint>(checkpoint);
  const preparedEvents = new BoundedBuffer<PreparedEvent>(MAX_PREPARED_MESSAGES);
  const confirmations = new BoundedBuffer<Confirmation>(MAX_UNCONFIRMED_MESSAGES);
  let isCaughtUp = false;
  let backlog: JetStreamBacklog = { pendingCount: 0, unacknowledgedCount: 0 };
  const reportProgress = () => options.onProgress({ position: tracker.checkpoint.position, isCaughtUp, backlog });
  const onBacklog = (newBacklog: JetStreamBacklog) => {
    backlog = newBacklog;
    reportProgress();
  };
  const onCaughtUp = () => {
    isCaughtUp = true;
    reportProgress();
  };
  reportProgress();
  await runTaskGroup(signal, [
    (groupSignal) => readEvents(options, checkpoint.position, preparedEvents, onCaughtUp, groupSignal),
    (groupSignal) => publishMessages(connection, options.stream, preparedEvents, confirmations, tracker, groupSignal),
    (groupSignal) => awaitConfirmations(confirmations, groupSignal),
    (groupSignal) => moveCheckpoint(connection, options, tracker, onBacklog, groupSignal),
  ]);
}

async function readEvents(
  options: RelayRunOptions,
  checkpoint: bigint,
  preparedEvents: BoundedBuffer<PreparedEvent>,
  onCaughtUp: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { client, onEventRead } = options;
  const log = createEventLog(client);
  const afterPosition = checkpoint === BEFORE_FIRST_EVENT ? undefined : checkpoint;
  onAbort(signal, () => preparedEvents.close());
  let decisions = await readQuarantineDecisions(log);
  const isSkipped = (stream: string, revision: bigint) => isQuarantined(decisions, "relay", { stream, revision });
  const pushEvent = (event: PreparedEvent) => {
    // The publisher awaits this promise later. Until then, its rejection must not count as unhandled.
    event.message?.catch(() => undefined);
    return preparedEvents.push(event);
  };
  let isLogConfirmed = false;
  try {
    for await (const logItem of subscribeToLog({
      client,
      after: afterPosition,
      categories: relayedCategories,
      isSkipped,
      signal,
    })) {
      // The log may have been replaced between the first check and the subscription.
      if (!isLogConfirmed) await requireSameLog(options);
      isLogConfirmed = true;
      if (logItem.kind === "caughtUp") onCaughtUp();
      if (logItem.kind !== "event" && logItem.kind !== "skipped") continue;
      const eventId = logItem.kind === "event" ? logItem.event.id : logItem.id;
      const isQuarantineEvent = logItem.kind === "event" && logItem.event.stream === QUARANTINE_STREAM;
      if (isQuarantineEvent) decisions = await readQuarantineDecisions(log);
      else onEventRead();
      const message = logItem.kind === "event" && !isQuarantineEvent ? createMessage(log, logItem.event) : undefined;
      const traceparent = logItem.kind === "event" ? logItem.event.metadata.traceparent : undefined;
      await pushEvent({ checkpoint: { position: logItem.position, eventId }, message, traceparent });
    }
  } catch (error) {
    if (!(error instanceof UnreadableEventError)) throw error;
    const failedCheckpoint = { position: error.logPosition.position, eventId: error.id };
    await pushEvent({
      checkpoint: failedCheckpoint,
      message: Promise.reject(new RelayStoppedError(error.logPosition, error)),
    });
    await waitUnlessAborted(new Promise(() => undefined), signal);
  }
  if (!signal.aborted) throw new Error("The event log ended the subscription.");
}

async function createMessage(log: EventLog, event: RecordedEvent): Promise<OutgoingMessage | undefined> {
  try {
    return await toMessage(log, event);
  } catch (error) {
    throw error instanceof RelayError ? new RelayStoppedError(event, error) : error;
  }
}

const messageCodec = JSONCodec();

type Confirmation = Promise<void>;

/**
 * Publishes messages in the order of the log, with a limited number of unconfirmed messages. Messages that are ready at
 * the same time are sent in one socket write, which is faster.
 */
async function publishMessages(
  connection: NatsConnection,
  stream: EventStream,
  preparedEvents: BoundedBuffer<PreparedEvent>,
  confirmations: BoundedBuffer<Confirmation>,
  tracker: InFlightTracker<Checkpoint>,
  signal: AbortSignal,
): Promise<void> {
  onAbort(signal, () => confirmations.close());
  const jsm = await connection.jetstreamManager(JETSTREAM_OPTIONS);
  const { delivered } = await jsm.consumers.info(stream.name, stream.consumerName);
  const publisher = createPublisher(connection, delivered.stream_seq, signal);
  const publishMessage = (
    { checkpoint, traceparent }: PreparedEvent,
    { id, subject, message }: OutgoingMessage,
  ): Confirmation => {
    const onConfirmed = tracker.addPublishedEvent(checkpoint);
    const fullSubject = `${stream.subjectPrefix}.${subject}`;
    const span = startSpan(`publish ${subject}`, "producer", traceparent);
    const sequence = publisher.publish(fullSubject, id, messageCodec.encode(message), span?.traceparent);
    if (span) endWith(span, sequence);
    const confirmation = sequence.then(onConfirmed);
    // `awaitConfirmations` awaits this promise later. Until then, its rejection must not count as unhandled.
    confirmation.catch(() => undefined);
    return confirmation;
  };
  for (;;) {
    const events = await takeReadyEvents(preparedEvents);
    if (events.length === 0) return;
    const messageResults = await waitUnlessAborted(Promise.allSettled(events.map(({ message }) => message)), signal);
    if (!messageResults || signal.aborted) return;
    const sentConfirmations: Confirmation[] = [];
    for (const [index, event] of events.entries()) {
      const messageResult = messageResults[index];
      if (messageResult?.status === "rejected") {
        // Messages before the failed event must still reach the server.
        await connection.flush();
        throw messageResult.reason;
      }
      if (messageResult?.value) sentConfirmations.push(publishMessage(event, messageResult.value));
      else tracker.addSkippedEvent(event.checkpoint);
    }
    for (const confirmation of sentConfirmations) await confirmations.push(confirmation);
    while (tracker.size >= MAX_UNACKNOWLEDGED_MESSAGES && !signal.aborted) await pause(CHECKPOINT_INTERVAL_MS, signal);
  }
}

async function takeReadyEvents(preparedEvents: BoundedBuffer<PreparedEvent>): Promise<PreparedEvent[]> {
  const events = await preparedEvents.take(1);
  if (events.length === 0) return events;
  await nextTurn();
  return [...events, ...preparedEvents.takeNow(MAX_PREPARED_MESSAGES - 1)];
}

/** Fails if the server did not store a message, which ends the relay run. */
async function awaitConfirmations(confirmations: BoundedBuffer<Confirmation>, signal: AbortSignal): Promise<void> {
  for (;;) {
    const [confirmation] = await confirmations.take(1);
    if (!confirmation) return;
    await waitUnlessAborted(confirmation, signal);
  }
}

/**
 * Regularly moves the checkpoint to the last event before the first unacknowledged message.
 *
 * @param onBacklog called with the backlog, after the checkpoint has moved
 * @throws if messages were lost, for example because a server of a cluster lost its disk. The next session publishes
 *   them again.
 */
async function moveCheckpoint(
  connection: NatsConnection,
  { pool, stream }: RelayRunOptions,
  tracker: InFlightTracker<Checkpoint>,
  onBacklog: (backlog: JetStreamBacklog) => void,
  signal: AbortSignal,
): Promise<void> {
  const jsm = await connection.jetstreamManager(JETSTREAM_OPTIONS);
  let storedCheckpoint = tracker.checkpoint;
  let missingSince: number | undefined;
  while (!signal.aborted) {
    await pause(CHECKPOINT_INTERVAL_MS, signal);
    const backlog = { pendingCount: 0, unacknowledgedCount: 0 };
    if (tracker.size > 0) {
      const info = await jsm.consumers.info(stream.name, stream.consumerName);
      Object.assign(backlog, { pendingCount: info.num_pending, unacknowledgedCount: info.num_ack_pending });
      tracker.acknowledge(info.ack_floor.stream_seq);
      const isMissing = tracker.hasStoredMessage && info.num_pending + info.num_ack_pending === 0;
      missingSince = isMissing ? (missingSince ?? performance.now()) : undefined;
      if (missingSince !== undefined && performance.now() - missingSince > LOSS_TIMEOUT_MS)
        throw new Error("The JetStream stream has lost messages.");
    }
    const { checkpoint } = tracker;
    if (checkpoint !== storedCheckpoint) {
      await moveRelayCheckpoint(pool, storedCheckpoint, checkpoint as EventCheckpoint);
      storedCheckpoint = checkpoint;
    }
    onBacklog(backlog);
  }
}
