import type { NatsConnection } from "nats";
import type pg from "pg";
import { withLeadership } from "../../shared/postgres/leadership.ts";
import { listenForPositions } from "../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { runTaskGroup, waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { createNotifier, pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { repeat } from "../../shared/runtime/work.ts";
import { requireSameLog, watchSameLog } from "../checkpoints/same-log.ts";
import { takeOverCheckpoint, type WebhookCheckpoint } from "../checkpoints/webhook-checkpoints.ts";
import { type Detail, type Role, type RoleDeps, type RoleStatus, startRole, toLastError } from "../roles/role.ts";
import {
  deriveStreamNames,
  type EventStream,
  ensureEventStream,
  JETSTREAM_OPTIONS,
  MAX_MESSAGE_AGE,
} from "./event-stream.ts";
import { withNats } from "./nats-session.ts";
import type { NatsSettings } from "./nats-settings.ts";
import { publishEvents, recordPublished, selectEvents } from "./publish.ts";

interface RelayOptions extends RoleDeps {
  nats: NatsSettings;
}

/**
 * Starts the role that publishes the public events in NATS JetStream. One process leads, and other processes stand by.
 * If the log, NATS or Postgres is unavailable, the role waits. If the checkpoint belongs to another log, the role fails
 * until log and database match again.
 */
export function startRelay(relayOptions: RelayOptions): Role {
  return startRole("relay", relayOptions, (options, { setStatus }, signal) => {
    let eventCount = 0;
    const reportStatus = (status: RoleStatus, messageCount = 0) => {
      eventCount += messageCount;
      // Only the leader has a position.
      setStatus({ position: undefined, ...status, eventCount });
    };
    const lead = (termSignal: AbortSignal) => {
      reportStatus({ state: "starting", detail: null, isLeader: true });
      return runTaskGroup(termSignal, [
        (groupSignal) => watchSameLog(options, groupSignal),
        (groupSignal) => relay(options, groupSignal, reportStatus),
      ]);
    };
    const onStandby = (detail: Detail) => reportStatus({ state: "standby", detail, isLeader: false });
    return { run: () => withLeadership({ ...options, signal, name: "webhook relay", onStandby }, lead) };
  });
}

const RESTART_PAUSE_MS = 100;

/** Publishes events until the signal aborts. Each run uses a new connection to NATS. */
function relay(
  options: RelayOptions,
  signal: AbortSignal,
  reportStatus: (status: RoleStatus, messageCount?: number) => void,
): Promise<void> {
  const { nats, logger, databaseUrl } = options;
  const stream = deriveStreamNames(databaseUrl, nats.NATS_STREAM_REPLICAS);
  let state: RoleStatus["state"] = "starting";
  let position: bigint | undefined;
  const onProgress = (progress: RelayProgress) => {
    position = progress.position;
    if (progress.isCaughtUp) state = "running";
    const detail = progress.isCaughtUp ? null : "catching up";
    reportStatus({ state, detail, isLeader: true, position }, progress.messageCount);
  };
  const report = (error: unknown) => {
    if (error !== null)
      reportStatus({ state, detail: "waits", isLeader: true, lastError: toLastError(error), position });
  };
  return repeat(
    { name: "relay", logger, signal, report },
    () =>
      withNats({ nats, name: "clinic relay", signal }, (connection, sessionSignal) =>
        runRelay(connection, { ...options, stream, onProgress }, sessionSignal),
      ),
    () => pause(RESTART_PAUSE_MS, signal),
  );
}

interface RelayProgress {
  position: bigint;
  isCaughtUp: boolean;
  /** Number of messages published since the last report. */
  messageCount: number;
}

interface RelayRunOptions extends RelayOptions {
  stream: EventStream;
  onProgress(progress: RelayProgress): void;
}

/** Maximum size of a message's headers. NATS limits the size of headers and payload together. */
const MAX_HEADER_BYTES = 512;

/** Time after which the relay looks for events if no notification arrives. */
const IDLE_INTERVAL_MS = 1_000;

/** Minimum time between two moves of the checkpoint. A crash in between causes repeated messages, which NATS drops. */
const CHECKPOINT_INTERVAL_MS = 100;

/**
 * Publishes the public events of the read models in the order of the log, until the connection to NATS ends. The
 * checkpoint moves after NATS has confirmed the messages. If NATS has lost messages, the messages of the last day are
 * published again.
 *
 * @throws {Error} if another process moved the checkpoint
 * @throws {DifferentLogError} if the checkpoint belongs to another log
 */
async function runRelay(connection: NatsConnection, options: RelayRunOptions, signal: AbortSignal): Promise<void> {
  const { pool, stream, logger, databaseUrl, onProgress } = options;
  await requireSameLog(options);
  const lastSequence = await ensureEventStream(await connection.jetstreamManager(JETSTREAM_OPTIONS), stream, logger);
  let checkpoint = await openCheckpoint(pool, lastSequence, logger);
  const deps = {
    ...options,
    jetStream: connection.jetstream(JETSTREAM_OPTIONS),
    maxPayloadBytes: (connection.info?.max_payload ?? Number.POSITIVE_INFINITY) - MAX_HEADER_BYTES,
  };
  const notifier = createNotifier();
  const stopListening = listenForPositions({ databaseUrl, applicationName: "relay", logger }, notifier.wake);
  let published: Pick<WebhookCheckpoint, "position" | "eventId" | "sequence"> = checkpoint;
  let recordedAt = 0;
  try {
    while (!signal.aborted) {
      const { end, events, previousPosition, hasMore } = await selectEvents(pool, published.position);
      const sequence = await waitUnlessAborted(publishEvents(deps, events, previousPosition), signal);
      if (signal.aborted) return;
      // After a failover, the read models can be behind the checkpoint.
      published = {
        ...(end.position > published.position ? end : published),
        sequence: sequence ?? published.sequence,
      };
      const lateEventIds = events.flatMap(({ eventId, isLate }) => (isLate ? [eventId] : []));
      const isDue = performance.now() - recordedAt >= CHECKPOINT_INTERVAL_MS;
      if (lateEventIds.length > 0 || (published.position > checkpoint.position && isDue)) {
        checkpoint = await recordPublished(pool, checkpoint, published, lateEventIds);
        recordedAt = performance.now();
      }
      onProgress({ position: published.position, isCaughtUp: !hasMore, messageCount: events.length });
      const isRecorded = published.position === checkpoint.position;
      if (!hasMore) await notifier.sleep(isRecorded ? IDLE_INTERVAL_MS : CHECKPOINT_INTERVAL_MS, signal);
    }
  } finally {
    await stopListening();
  }
}

/**
 * Returns the checkpoint of the messages. If NATS has lost messages, first moves the checkpoint back, so that the
 * messages of the last day are published again.
 *
 * @param lastSequence last sequence number in the stream
 * @throws {Error} if there is no checkpoint, or the read models of this release have not reached the checkpoint
 */
async function openCheckpoint(pool: pg.Pool, lastSequence: bigint, logger: Logger): Promise<WebhookCheckpoint> {
  const checkpoint = await takeOverCheckpoint(pool, "messages");
  if (lastSequence >= checkpoint.sequence) return checkpoint;
  logger.warn("NATS has lost messages. Those of the last day are published again.");
  const { rows } = await pool.query<{ position: bigint; eventId: string }>(
    `WITH last_kept AS (
       SELECT position, event_id FROM ${READ_MODEL_SCHEMA}.public_event
        WHERE type IS NOT NULL AND position < (
          SELECT COALESCE(min(position), $1::bigint + 1) FROM ${READ_MODEL_SCHEMA}.public_event
           WHERE type IS NOT NULL AND occurred_at >= now() - interval '${MAX_MESSAGE_AGE}')
        ORDER BY position DESC LIMIT 1)
     UPDATE webhooks.checkpoint c SET position = COALESCE(k.position, -1), event_id = k.event_id, sequence = 0
       FROM (SELECT) AS one LEFT JOIN last_kept k ON true
      WHERE name = 'messages' AND c.position >= COALESCE(k.position, -1)
     RETURNING c.position, c.event_id AS "eventId"`,
    [checkpoint.position],
  );
  return { ...checkpoint, ...rows[0], sequence: 0n };
}
