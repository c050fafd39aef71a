import { JSONCodec, type NatsConnection } from "nats";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { createEventLog, type EventLog, LogUnavailableError } from "../../shared/eventstore/log.ts";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import { concernsOneStream, isLogAvailable } from "../../shared/eventstore/stream-failure.ts";
import { type LogPosition, subscribeToLog } from "../../shared/eventstore/subscription.ts";
import { onAbort, runTaskGroup, waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { Checkpoint, EventCheckpoint } from "../checkpoints/checkpoint.ts";
import { moveRelayCheckpoint, readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { type LogAndDatabase, requireSameLog } from "../checkpoints/same-log.ts";
import type { JetStreamBacklog } from "../roles/role.ts";
import { EventHistories, RelayError } from "./event-histories.ts";
import { type EventStream, ensureEventStream, JETSTREAM_OPTIONS } from "./event-stream.ts";
import { InFlightTracker } from "./in-flight-tracker.ts";
import { MESSAGE_VERSION } from "./message.ts";
import { type EncodedMessage, MAX_PREPARED_MESSAGES, type PreparedEvent, publishMessages } from "./publish.ts";
import {
  deleteQuarantinedEvents,
  type QuarantineRecord,
  quarantineEvent,
  readQuarantinedEvents,
} from "./quarantined-events.ts";
import { canRevoke, hasMessages, relayedCategories, toMessage } from "./to-message.ts";

export interface RelayProgress {
  position: bigint;
  isCaughtUp: boolean;
  backlog: JetStreamBacklog;
}

/** Position of the last event that may revoke the permission to send deliveries. */
interface LastRevocation {
  position: bigint;
}

interface RelayRunOptions extends LogAndDatabase {
  stream: EventStream;
  logger: Logger;
  onProgress(progress: RelayProgress): void;
  onEventRead(): void;
  /** For each stream that could not be read, the time of the first failure. Kept between runs. */
  unavailableSince: Map<string, number>;
}

interface LimitedOptions extends RelayRunOptions {
  maxPayloadBytes: number;
}

/** Bytes for the headers of a message, which NATS counts, too. */
const MAX_HEADER_BYTES = 256;

const messageCodec = JSONCodec();

/** Time for which all events wait for one stream, if the log answers for others. Longer than a failover. */
const MAX_STREAM_WAIT_MS = 30_000;

const QUARANTINE_RETRY_INTERVAL_MS = 10 * 60_000;

/** Interval at which the relay reads the acknowledgements and moves the checkpoint. */
const CHECKPOINT_INTERVAL_MS = 100;

/**
 * Time after which a message counts as lost if the stream neither holds it nor reports its acknowledgement. Servers of a
 * cluster may report different states for a moment.
 */
const LOSS_TIMEOUT_MS = 5_000;

/**
 * Relays events from the checkpoint on, until the connection to NATS ends. The checkpoint moves when the dispatchers
 * acknowledge messages, not when the relay publishes them. If NATS loses messages, the relay can therefore read their
 * events from the log and publish them again.
 *
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
  const lastRevocation: LastRevocation = { position: BEFORE_FIRST_EVENT };
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
  const maxPayloadBytes = (connection.info?.max_payload ?? Number.POSITIVE_INFINITY) - MAX_HEADER_BYTES;
  const limitedOptions = { ...options, maxPayloadBytes };
  reportProgress();
  await runTaskGroup(signal, [
    (groupSignal) => readEvents(limitedOptions, checkpoint, lastRevocation, preparedEvents, onCaughtUp, groupSignal),
    (groupSignal) => retryQuarantinedEvents(limitedOptions, preparedEvents, groupSignal),
    (groupSignal) => publishMessages(connection, options.stream, preparedEvents, tracker, groupSignal),
    (groupSignal) => moveCheckpoint(connection, options, tracker, lastRevocation, onBacklog, groupSignal),
  ]);
}

async function readEvents(
  options: LimitedOptions,
  checkpoint: Checkpoint,
  lastRevocation: LastRevocation,
  preparedEvents: BoundedBuffer<PreparedEvent>,
  onCaughtUp: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { client, onEventRead } = options;
  const log = createEventLog(client);
  const histories = new EventHistories(log);
  const afterPosition = checkpoint.position === BEFORE_FIRST_EVENT ? undefined : checkpoint.position;
  onAbort(signal, () => preparedEvents.close());
  const pushEvent = (event: PreparedEvent) => {
    // The publisher awaits this promise later. Until then, its rejection must not count as unhandled.
    event.message?.catch(() => undefined);
    return preparedEvents.push(event);
  };
  let isLogConfirmed = false;
  for await (const logItem of subscribeToLog({ client, after: afterPosition, categories: relayedCategories, signal })) {
    // The log may have been replaced between the first check and the subscription.
    if (!isLogConfirmed) await requireSameLog(options);
    isLogConfirmed = true;
    if (logItem.kind === "caughtUp") onCaughtUp();
    if (logItem.kind !== "event" && logItem.kind !== "unreadable") continue;
    onEventRead();
    const { position } = logItem;
    const { stream } = logItem.kind === "event" ? logItem.event : logItem;
    if (canRevoke(stream)) lastRevocation.position = position;
    if (logItem.kind === "event") {
      const { event } = logItem;
      const message = createMessage(options, log, histories, event);
      await pushEvent({
        checkpoint: { position, eventId: event.id },
        message,
        traceparent: event.metadata.traceparent,
      });
    } else {
      const message = hasMessages(stream) ? quarantine(options, logItem, logItem.reason) : undefined;
      await pushEvent({ checkpoint: { position, eventId: logItem.id }, message });
    }
  }
  if (!signal.aborted) throw new Error("The event log ended the subscription.");
}

/**
 * Tries to send the quarantined events at the start and every ten minutes, until the signal aborts. Sends one at a time,
 * so that many of them do not delay new events.
 */
async function retryQuarantinedEvents(
  options: LimitedOptions,
  preparedEvents: BoundedBuffer<PreparedEvent>,
  signal: AbortSignal,
): Promise<void> {
  const log = createEventLog(options.client);
  const histories = new EventHistories(log);
  while (!signal.aborted) {
    for await (const quarantineRecord of readQuarantinedEvents(options.pool)) {
      const message = await waitUnlessAborted(createMessageAgain(options, log, histories, quarantineRecord), signal);
      if (signal.aborted) return;
      if (message) await preparedEvents.push({ message: Promise.resolve(message), quarantineRecord });
    }
    await pause(QUARANTINE_RETRY_INTERVAL_MS, signal);
  }
}

/**
 * Creates the message of an event. An event without a message is quarantined before the checkpoint can pass it. If the
 * log does not answer for a stream, but for others, the stream's events are quarantined after 30 seconds.
 */
async function createMessage(
  options: LimitedOptions,
  log: EventLog,
  histories: EventHistories,
  event: RecordedEvent,
): Promise<EncodedMessage | undefined> {
  const { unavailableSince } = options;
  const { stream } = event;
  try {
    const message = await encodeMessage(options, histories, event);
    unavailableSince.delete(stream);
    return message;
  } catch (error) {
    if (error instanceof RelayError) return quarantine(options, event, error.message);
    if (!(error instanceof LogUnavailableError)) throw error;
    if (!(await isLogAvailable(log))) unavailableSince.clear();
    else if (!unavailableSince.has(stream)) unavailableSince.set(stream, performance.now());
    const since = unavailableSince.get(stream);
    if (since === undefined || performance.now() - since < MAX_STREAM_WAIT_MS) throw error;
    return quarantine(options, event, "The event log does not answer for the stream.");
  }
}

/** @throws {RelayError} if the event has no valid message, or NATS would refuse the message */
async function encodeMessage(
  { maxPayloadBytes }: LimitedOptions,
  histories: EventHistories,
  event: RecordedEvent,
): Promise<EncodedMessage | undefined> {
  const outgoingMessage = await toMessage(histories, event);
  if (!outgoingMessage) return undefined;
  const { id, subject, message } = outgoingMessage;
  const payload = messageCodec.encode({ version: MESSAGE_VERSION, ...message });
  if (payload.length > maxPayloadBytes) throw new RelayError("The message is larger than NATS allows (max_payload).");
  return { id, subject, payload };
}

async function quarantine(options: RelayRunOptions, event: LogPosition, cause: string): Promise<undefined> {
  const { pool, logger } = options;
  const { position, stream, type } = event;
  // If the log was replaced after the event was read, the event may be missing from its stream.
  await requireSameLog(options);
  await quarantineEvent(pool, event, cause);
  logger.error({ position: String(position), stream, type, cause }, "Partners get no webhook for an event.");
}

/** Creates the message of a quarantined event, for example because a newer release can read the event. */
async function createMessageAgain(
  options: LimitedOptions,
  log: EventLog,
  histories: EventHistories,
  { position, since, stream, revision }: QuarantineRecord & Pick<LogPosition, "stream" | "revision">,
): Promise<EncodedMessage | undefined> {
  const { pool, logger } = options;
  try {
    const event = await log.readLast(stream, revision);
    if (event?.position !== position) return undefined;
    const message = await encodeMessage(options, histories, event);
    logger.warn({ position: String(position), stream, type: event.type }, "A quarantined event has a message now.");
    if (!message) await deleteQuarantinedEvents(pool, [{ position, since }]);
    return message;
  } catch (error) {
    // If the log is unavailable, the subscription ends, and the next session tries the event again.
    if (error instanceof RelayError || error instanceof LogUnavailableError) return undefined;
    if (await concernsOneStream(log, error)) return undefined;
    throw error;
  }
}

/**
 * Regularly moves the checkpoint to the last event before the first unacknowledged message. Records the last revocation
 * at once, because the messages before it may wait for the read models.
 *
 * @param onBacklog called with the backlog, after the checkpoint has moved
 * @throws if messages were lost, for example because a server of a cluster lost its disk. The next session publishes
 *   them again.
 */
async function moveCheckpoint(
  connection: NatsConnection,
  { pool, stream }: RelayRunOptions,
  tracker: InFlightTracker<Checkpoint>,
  lastRevocation: LastRevocation,
  onBacklog: (backlog: JetStreamBacklog) => void,
  signal: AbortSignal,
): Promise<void> {
  const jsm = await connection.jetstreamManager(JETSTREAM_OPTIONS);
  let storedCheckpoint = tracker.checkpoint;
  let storedRevocation = BEFORE_FIRST_EVENT;
  let missingSince: number | undefined;
  while (!signal.aborted) {
    await pause(CHECKPOINT_INTERVAL_MS, signal);
    const backlog = { pendingCount: 0, unacknowledgedCount: 0 };
    if (tracker.size > 0) {
      const info = await jsm.consumers.info(stream.name, stream.consumerName);
      Object.assign(backlog, { pendingCount: info.num_pending, unacknowledgedCount: info.num_ack_pending });
      await deleteQuarantinedEvents(pool, tracker.acknowledge(info.ack_floor.stream_seq));
      const isMissing = tracker.hasStoredMessage && info.num_pending + info.num_ack_pending === 0;
      missingSince = isMissing ? (missingSince ?? performance.now()) : undefined;
      if (missingSince !== undefined && performance.now() - missingSince > LOSS_TIMEOUT_MS)
        throw new Error("The JetStream stream has lost messages.");
    }
    const { checkpoint } = tracker;
    const { position: revocation } = lastRevocation;
    // Without a checkpoint, there are no deliveries yet.
    if (hasEvent(checkpoint) && (checkpoint !== storedCheckpoint || revocation !== storedRevocation)) {
      await moveRelayCheckpoint(pool, storedCheckpoint, checkpoint, revocation);
      storedCheckpoint = checkpoint;
      storedRevocation = revocation;
    }
    onBacklog(backlog);
  }
}

function hasEvent(checkpoint: Checkpoint): checkpoint is EventCheckpoint {
  return checkpoint.eventId !== null;
}
