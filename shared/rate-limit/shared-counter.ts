import type pg from "pg";

/** A window of a key as Postgres has it. */
export interface SharedWindow {
  /** Requests counted in it, by all processes. */
  used: number;
  /** Its end, by Postgres' clock. Milliseconds since 1970. */
  endsAt: number;
  /** The time until then. Milliseconds. */
  endsIn: number;
}

export interface Addition {
  key: string;
  /** Requests to add. */
  requests: number;
  /** Length of a new window. Milliseconds. */
  window: number;
  /** The key's current window as the caller knows it, used if Postgres has lost its row. */
  known: Pick<SharedWindow, "used" | "endsAt"> | undefined;
}

const NOW = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

/** A row that has ended starts a new window; a row that is not there continues the window that the caller knows. */
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

/** Rows that ended a minute ago, without those that another process removes. */
const REMOVE = {
  name: "remove ended counters",
  text: `
    DELETE FROM rate_limit.counter WHERE key IN (
      SELECT key FROM rate_limit.counter WHERE expire < ${NOW} - 60000 LIMIT 10000 FOR UPDATE SKIP LOCKED)`,
};

/** Adds requests to a key's current window and returns it. One statement, however many requests. */
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
