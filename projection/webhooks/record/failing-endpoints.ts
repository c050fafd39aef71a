import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { serviceErrors } from "../../../shared/webhooks/attempt-error.ts";
import type { FinishedAttempt } from "../send/attempt-delivery.ts";

/**
 * Maximum time between two failed attempts in one failure period. With the default schedule, a retry follows within 24
 * hours, so a gap of two days means that the endpoint had no due deliveries for a while.
 */
const MAX_FAILURE_GAP_MS = 2 * 24 * 60 * 60 * 1_000;

/**
 * Updates the failure period of each endpoint. A success ends the period, unless the failures have disabled the endpoint.
 * A failure starts a new period if the previous failure was more than two days ago, or if the endpoint was enabled after
 * the period began.
 *
 * @param client connection in the transaction that writes the outcomes
 * @param now milliseconds since 1970
 */
export async function trackFailingEndpoints(
  client: pg.ClientBase,
  outcomes: readonly FinishedAttempt[],
  now: number,
): Promise<void> {
  const successes = outcomes.filter(({ verdict }) => verdict.status === "delivered");
  const succeededIds = new Set(successes.map(({ delivery }) => delivery.endpointId));
  const failures = outcomes.filter(({ delivery, result, verdict }) => {
    if (verdict.status === "failed" && verdict.isGone) return true;
    // The endpoint did not fail if the service could not send the request.
    return !succeededIds.has(delivery.endpointId) && !(result.error && serviceErrors.has(result.error));
  });
  if (succeededIds.size + failures.length === 0) return;
  // Without this lock, two transactions could lock rows of the same endpoints in different orders, and deadlock.
  await client.query("SELECT pg_advisory_xact_lock(hashtextextended('failing endpoints', 0))");
  if (succeededIds.size > 0) await endFailurePeriods(client, [...succeededIds], failures);
  if (failures.length > 0) await addFailures(client, failures, now);
}

/**
 * Ends the failure periods of endpoints after a success. First locks the rows of all endpoints in id order.
 * `writeSuccesses` locks rows in the same order, so the two functions cannot deadlock.
 *
 * @param failures failed attempts, for which the transaction updates rows later
 */
async function endFailurePeriods(
  client: pg.ClientBase,
  succeededIds: readonly string[],
  failures: readonly FinishedAttempt[],
): Promise<void> {
  await client.query({
    name: "endpoints succeed",
    text: `WITH locked AS MATERIALIZED (
             SELECT endpoint_id FROM webhooks.failing_endpoint WHERE endpoint_id = ANY ($1::uuid[] || $2::uuid[])
              ORDER BY endpoint_id FOR UPDATE)
           DELETE FROM webhooks.failing_endpoint
            WHERE endpoint_id IN (SELECT endpoint_id FROM locked WHERE endpoint_id = ANY ($1::uuid[]))
              AND NOT is_disabled`,
    values: [succeededIds, failures.map(({ delivery }) => delivery.endpointId)],
  });
}

async function addFailures(client: pg.ClientBase, failures: readonly FinishedAttempt[], now: number): Promise<void> {
  await client.query({
    name: "endpoints fail",
    text: `INSERT INTO webhooks.failing_endpoint AS f (endpoint_id, since, failures, is_gone, last_failed_at, cause_id,
             correlation_id)
           SELECT endpoint_id, $5, count(*), bool_or(is_gone), $5, (array_agg(cause_id))[1], (array_agg(correlation_id))[1]
             FROM unnest($1::uuid[], $2::boolean[], $3::uuid[], $4::uuid[])
               AS failed (endpoint_id, is_gone, cause_id, correlation_id)
            GROUP BY endpoint_id ORDER BY endpoint_id
           ON CONFLICT (endpoint_id) DO UPDATE
              SET (since, failures, is_gone, reported_at, last_failed_at, cause_id, correlation_id) = (
                SELECT CASE WHEN is_over THEN excluded.since ELSE f.since END,
                       CASE WHEN is_over THEN 0 ELSE f.failures END + excluded.failures,
                       excluded.is_gone OR (f.is_gone AND NOT is_over),
                       CASE WHEN NOT is_over THEN f.reported_at END,
                       excluded.last_failed_at, excluded.cause_id, excluded.correlation_id
                  FROM (SELECT f.last_failed_at < $6 OR EXISTS (
                                 SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
                                  WHERE e.endpoint_id = f.endpoint_id AND e.enabled_at > f.since)) AS period (is_over))`,
    values: [
      failures.map(({ delivery }) => delivery.endpointId),
      failures.map(({ verdict }) => verdict.status === "failed" && verdict.isGone),
      failures.map(({ delivery }) => delivery.causeId),
      failures.map(({ delivery }) => delivery.correlationId),
      toInstant(now),
      toInstant(now - MAX_FAILURE_GAP_MS),
    ],
  });
}
