import type pg from "pg";

/** A session of Postgres that holds a lock for which the projection service waits. */
export interface BlockingSession {
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

/** Postgres hides when the transaction of another role began, so the time is that of the waiting statement. */
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
