import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { pause } from "../../../shared/runtime/backoff.ts";
import type { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";
import { isLockTimeout } from "../../../shared/runtime/failures.ts";
import { divide, runWork } from "../../../shared/runtime/work.ts";
import { serviceErrors } from "../../../shared/webhooks/attempt-error.ts";
import type { WebhooksContext } from "../context.ts";
import { listGroups, releaseNext } from "../match/ordering.ts";
import type { DueEndpoint } from "../schedule/schedule.ts";
import type { FinishedAttempt } from "../send/attempt-delivery.ts";

const MAX_BATCH_SIZE = 200;

const WRITE_INTERVAL_MS = 5;

/** Pause between two attempts to write an outcome whose rows are locked. */
const LOCKED_INTERVAL_MS = 1_000;

/** Time after a locked row in which locked rows are skipped instead of waited for. */
const SKIP_LOCKED_MS = 5_000;

/** Maximum number of outcomes that wait for locked rows. */
const MAX_WAITING = 2_000;

/**
 * Writes the outcomes of attempts in batches until the buffer is closed and empty. An outcome whose rows somebody has
 * locked waits, and others do not. If the database refuses a value of an outcome, writes the outcome without the response
 * body.
 *
 * @param onWritten called with outcomes after their commit, or if their attempts are repeated after their leases
 */
export function runOutcomeWriter(
  context: WebhooksContext,
  finishedAttempts: BoundedBuffer<FinishedAttempt>,
  onWritten: (outcomes: readonly FinishedAttempt[]) => void,
  signal: AbortSignal,
): Promise<void> {
  const { pool, logger, clock } = context;
  let waitingCount = 0;
  let skipUntil = 0;
  const wait = (outcomes: readonly FinishedAttempt[]) => {
    logger.warn({ count: outcomes.length }, "Outcomes of attempts wait for locked rows.");
    skipUntil = performance.now() + SKIP_LOCKED_MS;
    const waiting = outcomes.slice(0, MAX_WAITING - waitingCount);
    onWritten(outcomes.slice(waiting.length));
    waitingCount += waiting.length;
    // After the end of the role, the buffer drops the outcomes, and the attempts are repeated.
    const returnToBuffer = () => {
      waitingCount -= waiting.length;
      for (const outcome of waiting) void finishedAttempts.push(outcome);
    };
    setTimeout(returnToBuffer, LOCKED_INTERVAL_MS).unref();
  };
  const work = {
    async take() {
      await pause(WRITE_INTERVAL_MS, signal);
      const outcomes = await finishedAttempts.take(MAX_BATCH_SIZE);
      return outcomes.length > 0 ? outcomes : undefined;
    },
    async handle(outcomes: readonly FinishedAttempt[]) {
      const options = { skipsLocked: performance.now() < skipUntil, now: clock() };
      const { written, locked, releasedEndpoints } = await writeOutcomes(pool, outcomes, options).catch((error) => {
        if (isLockTimeout(error)) skipUntil = performance.now() + SKIP_LOCKED_MS;
        throw error;
      });
      context.onDue(releasedEndpoints);
      for (const { verdict, result } of written) context.onAttempt?.(verdict.status, result.durationMs / 1_000);
      onWritten(written);
      if (locked.length > 0) wait(locked);
    },
    async setAside(outcome: FinishedAttempt, error: unknown) {
      const { deliveryId, endpointId } = outcome.delivery;
      logger.error({ error, deliveryId, endpointId }, "The outcome of an attempt cannot be stored completely.");
      // If the response body is not the cause, the attempt is repeated after its lease.
      if (outcome.result.responseBody === null) return onWritten([outcome]);
      await divide([{ ...outcome, result: { ...outcome.result, responseBody: null } }], work);
    },
  };
  return runWork(work, context.createLoop("outcomes"));
}

/**
 * Locks the rows of the outcomes. The condition is true for an outcome if no other transaction has locked its existing
 * rows. OFFSET makes Postgres look up single rows instead of hashing the tables.
 */
const LOCK_ROWS_SQL = `
  locked_attempt AS MATERIALIZED (
    SELECT delivery_id, number FROM webhooks.attempt WHERE delivery_id = ANY (ARRAY(SELECT delivery_id FROM outcome))
       FOR UPDATE SKIP LOCKED
  ),
  locked_delivery AS MATERIALIZED (
    SELECT p.delivery_id FROM webhooks.pending_delivery p JOIN webhooks.delivery d USING (delivery_id)
     WHERE p.delivery_id = ANY (ARRAY(SELECT delivery_id FROM outcome)) FOR UPDATE SKIP LOCKED
  ),`;
const IS_LOCKED_SQL = `
  ((delivery_id, number) IN (TABLE locked_attempt)
   OR NOT EXISTS (SELECT FROM webhooks.attempt a WHERE a.delivery_id = o.delivery_id AND a.number = o.number OFFSET 0))
  AND (delivery_id IN (TABLE locked_delivery)
       OR NOT EXISTS (SELECT FROM webhooks.pending_delivery p WHERE p.delivery_id = o.delivery_id OFFSET 0))
  AND (endpoint_id IN (TABLE locked_period)
       OR NOT EXISTS (SELECT FROM webhooks.failing_endpoint f WHERE f.endpoint_id = o.endpoint_id OFFSET 0))`;

/** Schedules retries. */
const RETRY_SQL = `
  retried AS (
    UPDATE webhooks.pending_delivery p
       SET next_attempt_at = r.next_attempt_at, failed_attempt_count = p.failed_attempt_count + 1, lease_expires_at = NULL
      FROM ready r
     WHERE p.delivery_id = ANY (ARRAY(SELECT delivery_id FROM ready WHERE status = 'pending'))
       AND p.delivery_id = r.delivery_id AND p.attempt_count = r.number
    RETURNING p.delivery_id, p.attempt_count, r.status, r.next_attempt_at
  ),`;

/**
 * Maximum time between two failed attempts in one failure period. With the default schedule, a retry follows within 24
 * hours, so a gap of two days means that the endpoint had no due deliveries for a while.
 */
const MAX_FAILURE_GAP = "48 hours";

/**
 * Adds failures to the failure period of each endpoint. A failure starts a new period if the previous failure was more
 * than two days ago, or if the endpoint was enabled after the period began.
 */
const ADD_FAILURES_SQL = `
  failure AS MATERIALIZED (
    SELECT * FROM ready
     WHERE (SELECT count(*) FROM locked_period) >= 0 AND (is_gone OR (is_failure
       AND endpoint_id NOT IN (SELECT endpoint_id FROM ready WHERE status = 'delivered')))
  ),
  failing AS (
    INSERT INTO webhooks.failing_endpoint AS f (endpoint_id, since, failures, is_gone, last_failed_at, cause_id,
      correlation_id)
    SELECT endpoint_id, $2, count(*), bool_or(is_gone), $2, (array_agg(cause_id))[1], (array_agg(correlation_id))[1]
      FROM failure GROUP BY endpoint_id ORDER BY endpoint_id
    ON CONFLICT (endpoint_id) DO UPDATE
       SET (since, failures, is_gone, reported_at, last_failed_at, cause_id, correlation_id) = (
         SELECT CASE WHEN is_over THEN excluded.since ELSE f.since END,
                CASE WHEN is_over THEN 0 ELSE f.failures END + excluded.failures,
                excluded.is_gone OR (f.is_gone AND NOT is_over),
                CASE WHEN NOT is_over THEN f.reported_at END,
                excluded.last_failed_at, excluded.cause_id, excluded.correlation_id
           FROM (SELECT f.last_failed_at < excluded.last_failed_at - interval '${MAX_FAILURE_GAP}' OR EXISTS (
                          SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
                           WHERE e.endpoint_id = f.endpoint_id AND e.enabled_at > f.since)) AS period (is_over))
  ),`;

/**
 * Returns SQL that writes outcomes. A success ends the failure period of its endpoint, unless the failures have disabled
 * the endpoint. Existing periods are locked first, and missing ones are inserted last, both in the order of the ids, so
 * that two processes do not wait for each other.
 */
const buildWriteSql = (skipsLocked: boolean, hasFailures: boolean) => `
  WITH outcome AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1::json) AS o (delivery_id uuid, number integer, endpoint_id uuid, status text,
      next_attempt_at timestamptz, duration_ms integer, status_code integer, error text, answer text, is_failure boolean,
      is_gone boolean, cause_id uuid, correlation_id uuid)
  ),${skipsLocked ? LOCK_ROWS_SQL : ""}
  locked_period AS MATERIALIZED (
    SELECT endpoint_id FROM webhooks.failing_endpoint WHERE endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM outcome))
     ORDER BY endpoint_id FOR UPDATE ${skipsLocked ? "SKIP LOCKED" : ""}
  ),
  ready AS MATERIALIZED (SELECT * FROM outcome o ${skipsLocked ? `WHERE ${IS_LOCKED_SQL}` : ""}),
  attempted AS (
    UPDATE webhooks.attempt a
       SET duration_ms = r.duration_ms, status_code = r.status_code, error = r.error, answer = r.answer
      FROM ready r WHERE a.delivery_id = r.delivery_id AND a.number = r.number
  ),${hasFailures ? RETRY_SQL : ""}
  ended AS (
    DELETE FROM webhooks.pending_delivery p
     USING ready r
     WHERE p.delivery_id = ANY (ARRAY(SELECT delivery_id FROM ready WHERE status <> 'pending'))
       AND p.delivery_id = r.delivery_id AND (r.status = 'delivered' OR p.attempt_count = r.number)
    RETURNING p.delivery_id, p.attempt_count, r.status, r.next_attempt_at
  ),
  moved AS (
    UPDATE webhooks.delivery d
       SET status = m.status, attempt_count = m.attempt_count, next_attempt_at = m.next_attempt_at, updated_at = $2
      FROM (TABLE ended ${hasFailures ? "UNION ALL TABLE retried" : ""}) m
     WHERE d.delivery_id = m.delivery_id
  ),
  ${hasFailures ? ADD_FAILURES_SQL : ""}
  healthy AS (
    DELETE FROM webhooks.failing_endpoint
     WHERE endpoint_id IN (TABLE locked_period) AND NOT is_disabled
       AND endpoint_id IN (SELECT endpoint_id FROM ready WHERE status = 'delivered')
       ${hasFailures ? "AND endpoint_id NOT IN (SELECT endpoint_id FROM failure)" : ""}
  )
  SELECT delivery_id AS id FROM ready`;

interface WrittenOutcomes {
  written: FinishedAttempt[];
  /** Outcomes with rows that another transaction has locked. Nothing is written for them. */
  locked: FinishedAttempt[];
  /** Endpoints with a delivery that became due because the delivery before it has ended. */
  releasedEndpoints: DueEndpoint[];
}

/**
 * Writes the outcomes of attempts in one statement: the attempts, the status and next due time of the deliveries, and
 * the failure periods of the endpoints. If the delivery has been leased again since the attempt, only a success changes
 * the delivery. Then releases the deliveries that were blocked because of a delivery that has ended.
 *
 * @param options.skipsLocked if true, outcomes whose rows another transaction has locked are not written. If false, the
 *   statement waits for these rows, which costs less if there are none
 * @param options.now milliseconds since 1970
 */
export async function writeOutcomes(
  pool: pg.Pool,
  outcomes: readonly FinishedAttempt[],
  { skipsLocked, now }: { skipsLocked: boolean; now: number },
): Promise<WrittenOutcomes> {
  const hasFailures = outcomes.some(({ verdict }) => verdict.status !== "delivered");
  const { rows } = await pool.query<{ id: string }>({
    name: `write outcomes${skipsLocked ? " of unlocked rows" : ""}${hasFailures ? " with failures" : ""}`,
    text: buildWriteSql(skipsLocked, hasFailures),
    values: [JSON.stringify(outcomes.map(toRow)), toInstant(now)],
  });
  const writtenIds = new Set(rows.map(({ id }) => id));
  const written = outcomes.filter(({ delivery }) => writtenIds.has(delivery.deliveryId));
  const locked = outcomes.filter(({ delivery }) => !writtenIds.has(delivery.deliveryId));
  const ended = written.flatMap(({ delivery, verdict }) => (verdict.status === "pending" ? [] : [delivery]));
  // If this statement fails, the repair releases the deliveries a moment later.
  const releasedEndpoints = await releaseNext(pool, listGroups(ended), now).catch(() => []);
  return { written, locked, releasedEndpoints };
}

function toRow({ delivery, result, verdict }: FinishedAttempt): Record<string, unknown> {
  const { error } = result;
  const row = {
    delivery_id: delivery.deliveryId,
    number: delivery.attemptNumber,
    endpoint_id: delivery.endpointId,
    status: verdict.status,
    duration_ms: result.durationMs,
    status_code: result.statusCode,
    answer: result.responseBody,
  };
  if (verdict.status === "delivered") return row;
  return {
    ...row,
    error,
    next_attempt_at: verdict.status === "pending" ? toInstant(verdict.nextAttemptAt) : null,
    // The endpoint did not fail if the service could not send the request.
    is_failure: !(error && serviceErrors.has(error)),
    is_gone: verdict.status === "failed" && verdict.isGone,
    cause_id: delivery.causeId,
    correlation_id: delivery.correlationId,
  };
}
