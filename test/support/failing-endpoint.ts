import { randomUUID } from "node:crypto";
import type pg from "pg";

/**
 * Inserts an endpoint's failures over a number of minutes. If `isGone`, a receiver's response 410 disabled the
 * endpoint.
 */
export const insertFailingEndpoint = (
  pool: pg.Pool | pg.Client,
  endpointId: string,
  { since = new Date().toISOString(), minutes = 0, failures = 3, isGone = false } = {},
) =>
  pool.query(
    `INSERT INTO webhooks.failing_endpoint (endpoint_id, since, failures, last_failed_at, is_gone, cause_id, correlation_id)
     VALUES ($1, $2, $3, $2::timestamptz + make_interval(mins => $4), $5, $6, $6)`,
    [endpointId, since, failures, minutes, isGone, randomUUID()],
  );
