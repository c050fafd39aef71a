import type pg from "pg";

/** Count of the requests in a window. */
export interface Count {
  /** Number of requests in the window, including this request. If it exceeds the limit, the request is refused. */
  used: number;
  /**
   * End of the window by the clock of Postgres, in milliseconds since 1970. All requests in a window have the same
   * value.
   */
  endsAt: number;
  /** Time until the end of the window. Milliseconds. */
  endsInMs: number;
}

export interface CounterAddition {
  key: string;
  /** Number of requests to add. */
  requests: number;
  /** Length of the window, if the statement starts a new window. Milliseconds. */
  windowMs: number;
  /** Last known window of the key. If the key's row is missing in Postgres, the statement continues this window. */
  window: Pick<Count, "used" | "endsAt"> | undefined;
}

const NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

/**
 * Statement that counts requests. If the window has ended, the statement starts a new window. If the row is missing,
 * the statement continues the caller's last known window. If the statement waited for a lock, the window may be newer
 * than the statement's timestamp, so `endsInMs` is limited to the length of the window.
 */
const ADD_STATEMENT = {
  name: "count requests",
  text: `
    INSERT INTO rate_limit.counter AS counter (key, points, expire)
    VALUES ($1, $2::integer + $3::integer, coalesce($4::bigint, ${NOW_MS} + $5::bigint))
    ON CONFLICT (key) DO UPDATE SET
      points = CASE WHEN counter.expire > ${NOW_MS} THEN counter.points + $3 ELSE $3 END,
      expire = CASE WHEN counter.expire > ${NOW_MS} THEN counter.expire ELSE ${NOW_MS} + $5 END
    RETURNING points AS used, expire::float8 AS "endsAt", least(expire - ${NOW_MS}, $5::bigint)::float8 AS "endsInMs"`,
};

/**
 * Statement that removes counters whose windows ended at least a minute ago. The statement skips rows that another
 * process is removing.
 */
const REMOVE_STATEMENT = {
  name: "remove ended counters",
  text: `
    DELETE FROM rate_limit.counter WHERE key IN (
      SELECT key FROM rate_limit.counter WHERE expire < ${NOW_MS} - 60000 LIMIT 10000 FOR UPDATE SKIP LOCKED)`,
};

/** Adds requests to the current window of a key, and returns the window. */
export async function addRequests(pool: pg.Pool, { key, requests, windowMs, window }: CounterAddition): Promise<Count> {
  const values = [key, window?.used ?? 0, requests, window?.endsAt ?? null, windowMs];
  const { rows } = await pool.query<Count>({ ...ADD_STATEMENT, values });
  return rows[0] as Count;
}

/** Removes counters whose windows have ended. */
export async function removeEndedCounters(pool: pg.Pool): Promise<void> {
  await pool.query(REMOVE_STATEMENT);
}
