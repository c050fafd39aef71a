/**
 * Time by which an attempt may start before its position in the even spacing of a rate limit. Without this tolerance,
 * late decisions would make the endpoint slower than its limit. In any second, an endpoint therefore gets at most a
 * tenth more attempts than its limit, plus one. Seconds.
 */
const PACE_TOLERANCE_S = 0.1;

/** Locks the paces of the candidates. Skips paces that another process has locked, so that claims never wait. */
export const PACE_SQL = `
  pace AS MATERIALIZED (
    SELECT endpoint_id, next_start_at FROM webhooks.endpoint_pace
     WHERE endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM candidate WHERE rate_limit IS NOT NULL))
       FOR UPDATE SKIP LOCKED
  )`;

/**
 * SQL expression for the number of attempts at the endpoint `c` that may start now. The generic cell rate algorithm
 * spaces them evenly. While another process holds the lock on the endpoint's pace, none may start. Of several lanes of
 * an endpoint, only the first in the claim may use the pace.
 */
const PERMITTED_STARTS_SQL = `
  CASE WHEN c.is_repeated OR (pace.endpoint_id IS NULL AND known.endpoint_id IS NOT NULL) THEN 0
       ELSE GREATEST(0, 1 + floor(c.rate_limit * (${PACE_TOLERANCE_S}
              - GREATEST(0, COALESCE(extract(epoch FROM pace.next_start_at - now())::float8, 0)))))::integer END`;

/** Allots slots to the candidates. Endpoints without a rate limit have no pace. */
export const ALLOTTED_BY_PACE_SQL = `
  allotted AS MATERIALIZED (
    SELECT c.ordinal, c.lane, c.endpoint_id, c.url, c.body_format, c.branch_ids, c.rate_limit, c.failing,
           known.next_start_at,
           c.rate_limit IS NOT NULL AS is_limited,
           CASE WHEN c.rate_limit IS NULL THEN c.capacity ELSE LEAST(c.capacity, ${PERMITTED_STARTS_SQL}) END AS capacity
      FROM candidate c
      LEFT JOIN pace ON pace.endpoint_id = c.endpoint_id
      LEFT JOIN webhooks.endpoint_pace known ON known.endpoint_id = c.endpoint_id
  )`;

/**
 * Moves the pace of each endpoint by the number of its leased deliveries. All processes insert missing paces in the
 * order of the ids, so that two claims that insert the same paces cannot deadlock.
 */
export const RECORD_PACE_SQL = `
  started AS (
    SELECT e.endpoint_id, make_interval(secs => count(*)::float8 / e.rate_limit) AS duration
      FROM leased
      JOIN (SELECT DISTINCT endpoint_id, rate_limit FROM allotted WHERE rate_limit IS NOT NULL) e USING (endpoint_id)
     GROUP BY e.endpoint_id, e.rate_limit
  ),
  paced AS (
    INSERT INTO webhooks.endpoint_pace AS p (endpoint_id, next_start_at)
    SELECT endpoint_id, now() + duration FROM started ORDER BY endpoint_id
    ON CONFLICT (endpoint_id) DO UPDATE
       SET next_start_at = GREATEST(p.next_start_at, now()) + (excluded.next_start_at - now())
    RETURNING p.endpoint_id, p.next_start_at
  )`;

/** SQL expression for the time until the pace of the endpoint `x` permits the next attempt. Milliseconds. */
export const PAUSE_MS_SQL = `
  CASE WHEN x.is_limited THEN 1000 * GREATEST(0, COALESCE(
         extract(epoch FROM COALESCE(paced.next_start_at, x.next_start_at) - now())::float8, 0) - ${PACE_TOLERANCE_S})
       ELSE 0 END`;
