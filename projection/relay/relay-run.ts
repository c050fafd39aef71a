import type { NatsConnection } from "nats";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { createEventLog, type EventLog } from "../../shared/eventstore/log.ts";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import { type LogPosition, subscribeToLog, UnreadableEventError } from "../../shared/eventstore/subscription.ts";
import { onAbort, runTaskGroup, waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { Checkpoint, EventCheckpoint } from "../checkpoints/checkpoint.ts";
import { moveRelayCheckpoint, readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { type LogAndDatabase, requireSameLog } from "../checkpoints/same-log.ts";
import { isQuarantined, QUARANTINE_STREAM, readQuarantineDecisions } from "../quarantine/decisions.ts";
import type { JetStreamBacklog } from "../roles/role.ts";
import { type EventStream, ensureEventStream, JETSTREAM_OPTIONS } from "./event-stream.ts";
import { InFlightTracker } from "./in-flight-tracker.ts";
import type { OutgoingMessage } from "./message.ts";
import { MAX_PREPARED_MESSAGES, type PreparedEvent, publishMessages } from "./publish.ts";
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
    (groupSignal) => publishMessages(connection, options.stream, preparedEvents, tracker, groupSignal),
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
      if (logItem.kind === "unreadable") throw new UnreadableEventError(logItem);
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
