import type pg from "pg";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import {
  buildActiveEndpointSql,
  buildPendingEndpointsSql,
  IS_DUE_SQL,
  LANE_CONDITIONS,
} from "../webhooks/scheduling/due.ts";
import type { Lane } from "../webhooks/scheduling/due-endpoints.ts";

/** Times in seconds for which the oldest due delivery has been due. 0 if no delivery is due. */
export interface DeliveryDelays {
  /** Deliveries to endpoints whose last attempt succeeded, or that had no attempt yet. */
  healthy: number;
  /** Deliveries to endpoints whose last attempt failed. */
  failing: number;
}

/** Returns SQL that selects the oldest due delivery of each endpoint in a lane. */
const buildOldestDueSql = (lane: Lane) => `
  SELECT x.endpoint_id, d.next_attempt_at
    FROM ${lane}_endpoints x
   CROSS JOIN LATERAL (
     SELECT next_attempt_at FROM webhooks.pending_delivery
      WHERE endpoint_id = x.endpoint_id AND ${LANE_CONDITIONS[lane]} AND ${IS_DUE_SQL}
      ORDER BY next_attempt_at LIMIT 1) d`;

const MEASURE_DELAYS_SQL = `
  WITH RECURSIVE ${buildPendingEndpointsSql("first_endpoints", LANE_CONDITIONS.first)},
  ${buildPendingEndpointsSql("retry_endpoints", LANE_CONDITIONS.retry)},
  oldest AS MATERIALIZED (${buildOldestDueSql("first")} UNION ALL ${buildOldestDueSql("retry")})
  SELECT EXISTS (SELECT FROM webhooks.failing_endpoint f WHERE f.endpoint_id = oldest.endpoint_id) AS failing,
         extract(epoch FROM $1 - min(oldest.next_attempt_at))::float8 AS seconds
    FROM oldest
   CROSS JOIN LATERAL (${buildActiveEndpointSql("oldest.endpoint_id")}) active
   WHERE active.rate_limit_per_second IS NULL
   GROUP BY failing`;

/**
 * Measures how long the oldest due delivery has been due. Deliveries that may not be sent do not count, for example
 * while the origin of their endpoint is not approved. Deliveries to endpoints with a rate limit do not count either,
 * because partners choose these limits.
 *
 * @param now milliseconds since 1970
 */
export async function measureDeliveryDelays(pool: pg.Pool, now: number): Promise<DeliveryDelays> {
  const { rows } = await pool.query<{ failing: boolean; seconds: number }>({
    name: "measure delivery delays",
    text: MEASURE_DELAYS_SQL,
    values: [toInstant(now)],
  });
  const delays: DeliveryDelays = { healthy: 0, failing: 0 };
  for (const { failing, seconds } of rows) delays[failing ? "failing" : "healthy"] = Math.max(0, seconds);
  return delays;
}
