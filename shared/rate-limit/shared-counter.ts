import type pg from "pg";

/** Current window of a key in Postgres. */
export interface SharedWindow {
  /** Number of requests that all processes counted in the window. */
  used: number;
  /** End of the window, by the clock of Postgres. Milliseconds since 1970. */
  endsAt: number;
  /** Time until the end of the window. Milliseconds. */
  endsIn: number;
}

export interface Addition {
  key: string;
  /** Number of requests to add. */
  requests: number;
  /** Length of the window, if the statement starts a new window. Milliseconds. */
  window: number;
  /** Last known window of the key. It continues if Postgres has lost the row. */
  known: Pick<SharedWindow, "used" | "endsAt"> | undefined;
}

const NOW = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

/**
 * Statement that counts requests. If the window has ended, it starts a new window. If the row is missing, it
 * continues the caller's last known window.
 */
const ADD = {
  name: "count requests",
  text: `
    INSERT INTO rate_limit.counter AS counter (key, points, expire)
    VALUES ($1, $2::integer + $3::integer, coalesce($4::bigint, ${NOW} + $5::bigint))
    ON CONFLICT (key) DO UPDATE SET
      points = CASE WHEN counter.expire > ${NOW} THEN counter.points + $3 ELSE $3 END,
      expire = CASE WHEN counter.expire > ${NOW} THEN counter.expire ELSE ${NOW} + $5 END
    RETURNING points AS used, expire::float8 AS "endsAt", (expire - ${NOW})::float8 AS "endsIn"`,
};

/**
 * Statement that removes counters whose windows ended at least a minute ago. It skips rows that another process is
 * removing.
 */
const REMOVE = {
  name: "remove ended counters",
  text: `
    DELETE FROM rate_limit.counter WHERE key IN (
      SELECT key FROM rate_limit.counter WHERE expire < ${NOW} - 60000 LIMIT 10000 FOR UPDATE SKIP LOCKED)`,
};

/** Adds requests to the current window of a key, and returns the window. */
export async function addShared(
  pool: pg.Pool,
  { key, requests, window, known }: Addition,
): Promise<SharedWindow> {
  const values = [key, known?.used ?? 0, requests, known?.endsAt ?? null, window];
  const { rows } = await pool.query<SharedWindow>({ ...ADD, values });
  return rows[0] as SharedWindow;
}

/** Removes counters whose windows have ended. */
export async function removeEnded(pool: pg.Pool): Promise<void> {
  await pool.query(REMOVE);
}
