import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { READ_MODELS_CURRENT_SQL } from "../match/revocations.ts";
import type { DueEndpoint } from "./schedule.ts";

/**
 * SQL condition for due deliveries. $1 is the current time. A leased delivery is due only after its lease expires, or
 * after its sender is gone.
 */
export const IS_DUE_SQL = `
  next_attempt_at <= $1 AND (lease_expires_at IS NULL OR lease_expires_at <= $1
    OR NOT EXISTS (SELECT FROM webhooks.sender s WHERE s.sender_id = pending_delivery.sender_id))`;

/**
 * Returns SQL that selects an endpoint only if deliveries may be sent to it. The endpoint and its application must be
 * active. If the endpoint belongs to a clinic, the clinic must have approved the application. In production, the origin
 * of the URL must be approved. An endpoint that was disabled because of failures is excluded even before the log has
 * the event. The columns `branch_ids` and `animal_access` contain the access limits of the application.
 *
 * The result is valid only if {@link READ_MODELS_CURRENT_SQL} is true. Otherwise the read models may lack a revocation.
 * LIMIT prevents the planner from joining all endpoints.
 *
 * @param endpointIdSql SQL expression for the endpoint's id
 */
export const buildActiveEndpointSql = (endpointIdSql: string) => `
  SELECT e.endpoint_id, e.application_id, e.environment, e.url, e.rate_limit_per_second, e.body_format, i.branch_ids,
         i.animal_access
    FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
    LEFT JOIN ${READ_MODEL_SCHEMA}.installation i
      ON i.application_id = e.application_id AND i.clinic_id = e.clinic_id AND i.status = 'approved'
    JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = e.application_id AND NOT a.revoked
   WHERE e.endpoint_id = ${endpointIdSql} AND e.status = 'active'
     AND (e.clinic_id IS NULL OR i.installation_id IS NOT NULL)
     AND (e.environment <> 'production' OR a.webhook_origins ? e.origin)
     AND NOT EXISTS (SELECT FROM webhooks.failing_endpoint f
                      WHERE f.endpoint_id = e.endpoint_id AND f.is_disabled AND f.since >= e.enabled_at)
   LIMIT 1`;

/** SQL conditions for pending deliveries, each with a partial index. A blocked delivery waits for an earlier one. */
export const PENDING_CONDITIONS = { released: "NOT is_blocked", blocked: "is_blocked" };

/**
 * Returns SQL that finds the endpoints with pending deliveries. The query reads one index entry for each endpoint,
 * regardless of the number of deliveries.
 *
 * @param name name of the recursive query
 * @param condition one of {@link PENDING_CONDITIONS}
 */
export function buildPendingEndpointsSql(name: string, condition: string): string {
  const buildSql = (afterSql: string) =>
    `SELECT endpoint_id FROM webhooks.pending_delivery WHERE ${condition}${afterSql} ORDER BY endpoint_id LIMIT 1`;
  return `${name} AS (
    (${buildSql("")})
    UNION ALL
    SELECT (${buildSql(` AND endpoint_id > ${name}.endpoint_id`)}) FROM ${name} WHERE ${name}.endpoint_id IS NOT NULL
  )`;
}

/**
 * Selects active endpoints with due deliveries, except the endpoints in $2. If there are none, but deliveries are
 * pending, returns one row of nulls. If no delivery is pending, returns no row. Because of LIMIT, the query reads at
 * most one due delivery of each endpoint.
 */
const FIND_DUE_ENDPOINTS_SQL = `
  WITH RECURSIVE ${buildPendingEndpointsSql("endpoints", PENDING_CONDITIONS.released)},
  due AS MATERIALIZED (
    SELECT x.endpoint_id
      FROM endpoints x
     CROSS JOIN LATERAL (
       SELECT FROM webhooks.pending_delivery
        WHERE endpoint_id = x.endpoint_id AND ${PENDING_CONDITIONS.released} AND ${IS_DUE_SQL} LIMIT 1) d
     WHERE x.endpoint_id <> ALL ($2::uuid[])
  ),
  active AS (
    SELECT a.environment, a.application_id AS "applicationId", a.endpoint_id AS "endpointId"
      FROM due
     CROSS JOIN LATERAL (${buildActiveEndpointSql("due.endpoint_id")}) a
     WHERE ${READ_MODELS_CURRENT_SQL}
  )
  SELECT active.*
    FROM (SELECT FROM endpoints WHERE endpoint_id IS NOT NULL LIMIT 1) pending
    LEFT JOIN active ON true`;

/**
 * Finds the active endpoints with due deliveries.
 *
 * @param knownIds ids of endpoints to leave out
 * @param now milliseconds since 1970
 * @returns `hasPending` is true if any unblocked delivery is pending, even if it is not due
 */
export async function findDueEndpoints(
  pool: pg.Pool,
  knownIds: readonly string[],
  now: number,
): Promise<{ endpoints: DueEndpoint[]; hasPending: boolean }> {
  const { rows } = await pool.query<DueEndpoint | Record<keyof DueEndpoint, null>>({
    name: "find due endpoints",
    text: FIND_DUE_ENDPOINTS_SQL,
    values: [toInstant(now), knownIds],
  });
  const endpoints = rows.filter((row): row is DueEndpoint => row.endpointId !== null);
  return { endpoints, hasPending: rows.length > 0 };
}
