import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { serviceErrors } from "../../../shared/webhooks/attempt-error.ts";
import type { FinishedAttempt } from "../send/attempt-delivery.ts";
import type { FailurePeriod } from "./outbox.ts";

const DAY_MS = 24 * 60 * 60 * 1_000;

const DISABLE_AFTER_MS = 5 * DAY_MS;

const MIN_FAILURES = 10;

/**
 * Maximum time between two failed attempts in one failure period. With the default schedule, a retry follows within 24
 * hours, so a gap of two days means that the endpoint had no due deliveries for a while.
 */
const MAX_FAILURE_GAP_MS = 2 * DAY_MS;

const REPORT_AFTER_MS = 5 * 60_000;

const MIN_REPORTED_FAILURES = 3;

export interface FailingEndpoints {
  disableIds: Set<string>;
  /** By endpoint id. An endpoint that will be disabled is not reported. */
  reports: Map<string, FailurePeriod>;
}

const NONE: FailingEndpoints = { disableIds: new Set(), reports: new Map() };

/**
 * Updates the failure period of each endpoint. A success ends the period. A failure starts a new period if the previous
 * failure was more than two days ago, or if the endpoint was enabled after the period began.
 *
 * @param client connection in the transaction that writes the outcomes
 * @param now milliseconds since 1970
 * @returns the endpoints to disable, whose failure period has lasted five days and includes at least ten failed
 *   attempts, and the endpoints to report, whose failure period has lasted five minutes, includes at least three failed
 *   attempts and was not reported in the last 24 hours
 */
export async function trackFailingEndpoints(
  client: pg.ClientBase,
  outcomes: readonly FinishedAttempt[],
  now: number,
): Promise<FailingEndpoints> {
  const successes = outcomes.filter(({ verdict }) => verdict.status === "delivered");
  const succeededIds = new Set(successes.map(({ delivery }) => delivery.endpointId));
  const failureCounts = new Map<string, number>();
  for (const { delivery, result } of outcomes) {
    // The endpoint did not fail if the service could not send the request.
    if (succeededIds.has(delivery.endpointId) || (result.error && serviceErrors.has(result.error))) continue;
    failureCounts.set(delivery.endpointId, (failureCounts.get(delivery.endpointId) ?? 0) + 1);
  }
  if (succeededIds.size + failureCounts.size === 0) return NONE;
  // Without this lock, two transactions could lock rows of the same endpoints in different orders, and deadlock.
  await client.query("SELECT pg_advisory_xact_lock(hashtextextended('failing endpoints', 0))");
  if (succeededIds.size > 0) await endFailurePeriods(client, [...succeededIds], [...failureCounts.keys()]);
  return failureCounts.size === 0 ? NONE : addFailures(client, failureCounts, now);
}

/**
 * Ends the failure periods of endpoints after a success. First locks the rows of all endpoints in id order.
 * `writeSuccesses` locks rows in the same order, so the two functions cannot deadlock.
 *
 * @param failedIds ids of failed endpoints, whose rows the transaction updates later
 */
async function endFailurePeriods(
  client: pg.ClientBase,
  succeededIds: readonly string[],
  failedIds: readonly string[],
): Promise<void> {
  await client.query({
    name: "endpoints succeed",
    text: `WITH locked AS MATERIALIZED (
             SELECT endpoint_id FROM webhooks.failing_endpoint WHERE endpoint_id = ANY ($1::uuid[] || $2::uuid[])
              ORDER BY endpoint_id FOR UPDATE)
           DELETE FROM webhooks.failing_endpoint
            WHERE endpoint_id IN (SELECT endpoint_id FROM locked WHERE endpoint_id = ANY ($1::uuid[]))`,
    values: [succeededIds, failedIds],
  });
}

async function addFailures(
  client: pg.ClientBase,
  failureCounts: ReadonlyMap<string, number>,
  now: number,
): Promise<FailingEndpoints> {
  const { rows } = await client.query<FailurePeriod & { endpointId: string; disable: boolean; report: boolean }>({
    name: "endpoints fail",
    text: `INSERT INTO webhooks.failing_endpoint AS f (endpoint_id, since, failures, last_failed_at)
           SELECT endpoint_id, $3, failures, $3
             FROM unnest($1::uuid[], $2::integer[]) AS failed (endpoint_id, failures) ORDER BY endpoint_id
           ON CONFLICT (endpoint_id) DO UPDATE
              SET (since, failures, last_failed_at, reported_at) = (
                SELECT CASE WHEN period.is_over THEN excluded.since ELSE f.since END,
                       CASE WHEN period.is_over THEN 0 ELSE f.failures END + excluded.failures,
                       excluded.last_failed_at,
                       CASE WHEN period.is_over THEN NULL
                            WHEN f.since <= $6 AND f.failures + excluded.failures >= ${MIN_REPORTED_FAILURES}
                                 AND (f.reported_at IS NULL OR f.reported_at <= $7) THEN excluded.last_failed_at
                            ELSE f.reported_at END
                  FROM (SELECT f.last_failed_at < $4 OR EXISTS (
                                 SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
                                  WHERE e.endpoint_id = f.endpoint_id AND e.enabled_at > f.since)) AS period (is_over))
           RETURNING endpoint_id AS "endpointId", (1000 * extract(epoch FROM since))::float8 AS "sinceMs",
                     failures AS "failedAttempts", since < $5 AND failures >= ${MIN_FAILURES} AS disable,
                     reported_at IS NOT DISTINCT FROM $3 AS report`,
    values: [
      [...failureCounts.keys()],
      [...failureCounts.values()],
      toInstant(now),
      toInstant(now - MAX_FAILURE_GAP_MS),
      toInstant(now - DISABLE_AFTER_MS),
      toInstant(now - REPORT_AFTER_MS),
      toInstant(now - DAY_MS),
    ],
  });
  const reportedRows = rows.filter(({ disable, report }) => report && !disable);
  return {
    disableIds: new Set(rows.filter(({ disable }) => disable).map(({ endpointId }) => endpointId)),
    reports: new Map(reportedRows.map(({ endpointId, ...failurePeriod }) => [endpointId, failurePeriod])),
  };
}

export async function deleteFailurePeriods(client: pg.ClientBase, endpointIds: readonly string[]): Promise<void> {
  if (endpointIds.length === 0) return;
  await client.query("DELETE FROM webhooks.failing_endpoint WHERE endpoint_id = ANY ($1::uuid[])", [endpointIds]);
}
