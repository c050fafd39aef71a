import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { WebhookEndpointEvent } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { isLogAvailable } from "../../../shared/eventstore/stream-failure.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { classify } from "../../../shared/runtime/failures.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { forEachConcurrently } from "../../../shared/runtime/work.ts";
import { appendDerivedEvent, type DerivedEvent, SELECT_FAILURES_SQL } from "../../../shared/webhooks/derived-event.ts";
import { requireSameLog } from "../../checkpoints/same-log.ts";

/** Maximum number of endpoints or replays whose events are recorded in one pass. */
const MAX_ROWS = 200;

/** Maximum number of secrets whose events are recorded in one pass. */
const MAX_SECRETS = 1_000;

const MAX_CONCURRENT_STREAMS = 16;

const REPORT_SECRET_BEFORE_MS = 6 * 60 * 60 * 1_000;

/**
 * Event that the log may lack. If it follows from a row about failures or a replay, SQL statements update this row.
 * Otherwise, a read model shows that the event is recorded.
 */
export interface UnrecordedEvent extends DerivedEvent {
  /** Parameters of the SQL statements. They identify the row. */
  key?: readonly unknown[];
  /** SQL statement that marks the event as recorded. */
  recordedSql?: string;
  /** SQL statement that postpones the event by a minute. */
  postponeSql?: string;
}

export interface RecordOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  log: EventLog;
  logger: Logger;
}

/**
 * Appends events that the log does not contain yet, and marks them as recorded. If the process dies before it marks an
 * event, the next pass finds the event in the log. If a stream cannot be read or extended, only its event is postponed.
 * An event whose stream is empty is discarded, because the stream was deleted.
 *
 * @throws {LogUnavailableError} if no stream can be read
 * @throws {DifferentLogError} if the database was not built from this log; in this case, appends no event
 */
export async function recordEvents(options: RecordOptions, unrecordedEvents: readonly UnrecordedEvent[]) {
  if (unrecordedEvents.length === 0) return;
  await requireSameLog(options);
  const { pool, log, logger } = options;
  const record = async (unrecordedEvent: UnrecordedEvent) => {
    const { stream, key = [], recordedSql, postponeSql } = unrecordedEvent;
    try {
      if (!(await appendDerivedEvent(log, unrecordedEvent)))
        logger.error({ stream }, "An event was discarded, because its stream was deleted from the log.");
    } catch (error) {
      if (classify(error) === "server" && !(await isLogAvailable(log))) throw error;
      logger.error({ error, stream }, "An event cannot be recorded. It is tried again later.");
      if (postponeSql) await pool.query(postponeSql, [...key]);
      return;
    }
    if (recordedSql) await pool.query(recordedSql, [...key]);
  };
  await forEachConcurrently(unrecordedEvents, record, { limit: MAX_CONCURRENT_STREAMS });
}

const RETRY_AT_SQL = "now() + interval '1 minute'";

/** SQL condition for the row of a failure period. Selects no row if the endpoint has started another period. */
const PERIOD_SQL = "WHERE endpoint_id = $1 AND since = $2";

/**
 * Finds endpoints that were disabled because of failures, and failing endpoints that must be reported. An endpoint is
 * reported after five minutes of failures and at least three failed attempts, and at most once in 24 hours. Skips rows
 * that another transaction has locked.
 */
export async function findEndpointFailures(pool: pg.Pool): Promise<UnrecordedEvent[]> {
  const { rows } = await pool.query<DerivedEvent & { event: WebhookEndpointEvent }>({
    name: "unrecorded failures",
    text: `${SELECT_FAILURES_SQL}
            WHERE next_try_at <= now()
              AND (is_disabled
                   OR (last_failed_at - since >= interval '5 minutes' AND failures >= 3
                       AND (reported_at IS NULL OR last_failed_at - reported_at >= interval '1 day')))
            ORDER BY last_failed_at LIMIT ${MAX_ROWS} FOR UPDATE SKIP LOCKED`,
  });
  return rows.map((derivedEvent) => ({
    ...derivedEvent,
    key: [derivedEvent.event.data.endpointId, derivedEvent.activeSince],
    recordedSql:
      derivedEvent.event.type === "WebhookEndpointDisabled"
        ? `DELETE FROM webhooks.failing_endpoint ${PERIOD_SQL}`
        : `UPDATE webhooks.failing_endpoint SET reported_at = last_failed_at ${PERIOD_SQL}`,
    postponeSql: `UPDATE webhooks.failing_endpoint SET next_try_at = ${RETRY_AT_SQL} ${PERIOD_SQL}`,
  }));
}

export async function findEndedReplays(pool: pg.Pool): Promise<UnrecordedEvent[]> {
  const { rows } = await pool.query<DerivedEvent>({
    name: "unrecorded replays",
    text: `SELECT 'webhookReplay-' || w.replay_id AS stream, w.replay_id AS source, r.request_id AS "causeId",
                  r.correlation_id AS "correlationId", rfc3339(w.updated_at) AS "occurredAt",
                  json_build_object('type', 'WebhookReplayCompleted', 'data', json_build_object(
                    'replayId', w.replay_id, 'endpointId', r.endpoint_id, 'outcome', w.outcome,
                    'replayedCount', w.replayed_count, 'notReplayedCount', w.not_replayed_count)) AS event
             FROM webhooks.replay w
             JOIN ${READ_MODEL_SCHEMA}.webhook_replay r USING (replay_id)
            WHERE w.outcome IS NOT NULL AND w.next_try_at <= now()
            ORDER BY w.next_try_at LIMIT ${MAX_ROWS} FOR UPDATE OF w SKIP LOCKED`,
  });
  return rows.map((derivedEvent) => ({
    ...derivedEvent,
    key: [derivedEvent.source],
    recordedSql: "UPDATE webhooks.replay SET next_try_at = NULL WHERE replay_id = $1",
    postponeSql: `UPDATE webhooks.replay SET next_try_at = ${RETRY_AT_SQL} WHERE replay_id = $1`,
  }));
}

/**
 * Finds former signing secrets that expire within six hours and are not reported yet: at most 1,000, in order of
 * expiry.
 *
 * @param now milliseconds since 1970
 */
export async function findExpiringSecrets(pool: pg.Pool, now: number): Promise<UnrecordedEvent[]> {
  const { rows } = await pool.query<DerivedEvent>({
    name: "expiring secrets",
    text: `SELECT 'webhookEndpoint-' || endpoint_id AS stream, former->>'secretId' AS source,
                  former->>'rotationId' AS "causeId", former->>'correlationId' AS "correlationId", $1 AS "occurredAt",
                  json_build_object('type', 'WebhookSecretExpiryReported', 'data', json_build_object(
                    'endpointId', endpoint_id, 'secretId', former->>'secretId', 'expiresAt', former->>'expiresAt')) AS event
             FROM ${READ_MODEL_SCHEMA}.webhook_secret CROSS JOIN LATERAL jsonb_array_elements(former_secrets) former
            WHERE former->>'isReported' = 'false' AND former->>'expiresAt' > $1 AND former->>'expiresAt' <= $2
            ORDER BY former->>'expiresAt'
            LIMIT ${MAX_SECRETS}`,
    values: [toInstant(now), toInstant(now + REPORT_SECRET_BEFORE_MS)],
  });
  return rows;
}
