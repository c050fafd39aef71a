/** Facts about the whole service, which the status prints and the metrics export. */
import type pg from "pg";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import {
  buildActiveEndpointSql,
  buildPendingEndpointsSql,
  IS_DUE_SQL,
  PENDING_CONDITIONS,
} from "../webhooks/schedule/due.ts";

/**
 * Maximum number of deliveries that are counted exactly. A larger number is estimated with a standard error of 1.4 %,
 * so that the cost does not grow with the number of deliveries.
 */
export const MAX_COUNTED_DELIVERIES = 5_000;

interface CountRow {
  pending: bigint;
  due: bigint;
  last_pending: string | null;
  failed: bigint;
  last_failed: string | null;
}

/** Counts the deliveries with the lowest ids. Ids are hashes, so these deliveries are a random sample of all. */
const COUNT_DELIVERIES_SQL = `
  WITH pending AS (
    SELECT delivery_id, ${IS_DUE_SQL} AND NOT is_blocked AS is_due FROM webhooks.pending_delivery
     ORDER BY delivery_id LIMIT ${MAX_COUNTED_DELIVERIES}
  ),
  failed AS (
    SELECT delivery_id FROM webhooks.delivery WHERE unsuccessful_status = 'failed'
     ORDER BY delivery_id LIMIT ${MAX_COUNTED_DELIVERIES}
  )
  SELECT p.*, f.*
    FROM (SELECT count(*) AS pending, count(*) FILTER (WHERE is_due) AS due,
                 (SELECT delivery_id FROM pending ORDER BY delivery_id DESC LIMIT 1) AS last_pending
            FROM pending) p,
         (SELECT count(*) AS failed, (SELECT delivery_id FROM failed ORDER BY delivery_id DESC LIMIT 1) AS last_failed
            FROM failed) f`;

/**
 * Counts three kinds of deliveries: pending, due for an attempt, and failed after the last retry without a replay.
 * Numbers above {@link MAX_COUNTED_DELIVERIES} are estimates.
 *
 * @param now milliseconds since 1970
 */
export async function countDeliveries(pool: pg.Pool, now: number) {
  const { rows } = await pool.query<CountRow>({
    name: "count deliveries",
    text: COUNT_DELIVERIES_SQL,
    values: [toInstant(now)],
  });
  const [row] = rows;
  if (!row) throw new Error("The query for the numbers of deliveries returned no row.");
  const pending = estimateCount(Number(row.pending), row.last_pending);
  const due = row.pending === 0n ? 0 : Math.round((pending * Number(row.due)) / Number(row.pending));
  return { pending, due, failed: estimateCount(Number(row.failed), row.last_failed) };
}

/**
 * Estimates the number of rows from the lowest ids. Ids are evenly distributed, so the position of the highest counted
 * id between the lowest and the highest possible id shows which share of the rows was counted.
 *
 * @param countedRowCount number of counted rows
 * @param lastId highest counted id
 */
function estimateCount(countedRowCount: number, lastId: string | null): number {
  if (countedRowCount < MAX_COUNTED_DELIVERIES || lastId === null) return countedRowCount;
  const countedShare = Number.parseInt(lastId.replaceAll("-", "").slice(0, 12), 16) / 2 ** 48;
  return Math.max(countedRowCount, Math.round((countedRowCount - 1) / countedShare));
}

/** Times in seconds for which the oldest due delivery has been due. 0 if no delivery is due. */
interface DeliveryDelays {
  /** Deliveries to endpoints whose last attempt succeeded, or that had no attempt yet. */
  healthy: number;
  failing: number;
}

const MEASURE_DELAYS_SQL = `
  WITH RECURSIVE ${buildPendingEndpointsSql("endpoints", PENDING_CONDITIONS.released)},
  oldest AS MATERIALIZED (
    SELECT x.endpoint_id, d.next_attempt_at
      FROM endpoints x
     CROSS JOIN LATERAL (
       SELECT next_attempt_at FROM webhooks.pending_delivery
        WHERE endpoint_id = x.endpoint_id AND ${PENDING_CONDITIONS.released} AND ${IS_DUE_SQL}
        ORDER BY next_attempt_at LIMIT 1) d
  )
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

/**
 * Counts the public events that could not be processed and will be tried again. Also returns the error of one of them.
 */
export async function findEventsAside(pool: pg.Pool): Promise<{ eventsAside: number; asideCause: string | null }> {
  const { rows } = await pool.query<{ eventsAside: number; asideCause: string | null }>(
    `SELECT count(*)::integer AS "eventsAside", min(cause) AS "asideCause"
       FROM webhooks.late_event WHERE cause IS NOT NULL`,
  );
  return rows[0] ?? { eventsAside: 0, asideCause: null };
}

/** A session of Postgres that holds a lock for which the projection service waits. */
interface BlockingSession {
  pid: number;
  user: string;
  application: string;
  /** Time for which the service's statement has waited. */
  seconds: number;
}

/** Finds the sessions that have blocked a statement of this role for more than a second, for example a human's `psql`. */
export async function findBlockingSessions(pool: pg.Pool): Promise<BlockingSession[]> {
  const { rows } = await pool.query<BlockingSession>(FIND_STATEMENT);
  return rows;
}

/**
 * Selects the blocking sessions. Postgres hides when another role's transaction began, so `seconds` is the time that
 * the blocked statement has waited.
 */
const FIND_STATEMENT = {
  name: "blocking sessions",
  text: `
    SELECT b.pid, b.usename::text AS "user", b.application_name AS application,
           max(extract(epoch FROM clock_timestamp() - w.query_start))::float8 AS seconds
      FROM pg_stat_activity w
      CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) blocking (pid)
      JOIN pg_stat_activity b ON b.pid = blocking.pid
     WHERE w.usename = current_user AND w.wait_event_type = 'Lock'
       AND w.query_start < clock_timestamp() - interval '1 second' AND b.usename IS NOT NULL
     GROUP BY b.pid, b.usename, b.application_name
     ORDER BY b.pid`,
};

/** Reads the time of the last success of each daily task and of WAL archiving, in seconds since 1970. */
export async function measureTasks(pool: pg.Pool): Promise<{ task: string; seconds: number }[]> {
  const { rows } = await pool.query<{ task: string; seconds: number }>(MEASURE_TASKS_STATEMENT);
  return rows;
}

/**
 * Without `archive_timeout`, a WAL segment can wait for hours before Postgres archives it. WAL archiving then counts as
 * successful now, unless the last attempt failed.
 */
const MEASURE_TASKS_STATEMENT = {
  name: "daily tasks",
  text: `
    SELECT task, extract(epoch FROM succeeded_at)::float8 AS seconds FROM projection.task_success
    UNION ALL
    SELECT 'archive', CASE WHEN current_setting('archive_mode') = 'off' THEN 0
        WHEN current_setting('archive_timeout') <> '0' OR last_failed_time > coalesce(last_archived_time, '-infinity')
        THEN extract(epoch FROM coalesce(last_archived_time, stats_reset))::float8
        ELSE extract(epoch FROM now())::float8 END
      FROM pg_stat_archiver`,
};
