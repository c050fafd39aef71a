import type pg from "pg";
import { settlesWithin, withTimeout } from "../runtime/timeout.ts";

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
 * Builds the SQL that counts requests. If the window of a key has ended, the statement starts a new window. If the row is
 * missing, the statement continues the caller's last known window.
 *
 * @param rows SQL of the rows to insert: key, points and end of the window
 * @param requests SQL of the number of requests to add to an existing row
 * @param windowMs SQL of the length of a new window in an existing row
 */
const buildAddSql = (rows: string, requests: string, windowMs: string) => `
    INSERT INTO rate_limit.counter AS counter (key, points, expire)
    ${rows}
    ON CONFLICT (key) DO UPDATE SET
      points = CASE WHEN counter.expire > ${NOW_MS} THEN counter.points ELSE 0 END + ${requests},
      expire = CASE WHEN counter.expire > ${NOW_MS} THEN counter.expire ELSE ${NOW_MS} + ${windowMs} END
    RETURNING key, points AS used, expire::float8 AS "endsAt", (expire - ${NOW_MS})::float8 AS "endsInMs"`;

/** Statement that counts requests of one key. It costs less than the statement for several keys. */
const ADD_STATEMENT = {
  name: "count requests",
  text: buildAddSql(
    `VALUES ($1, $2::integer + $3::integer, coalesce($4::bigint, ${NOW_MS} + $5::integer))`,
    "$2::integer",
    "$5::integer",
  ),
};

/** Returns the SQL that selects the current key's element of an array. An upsert's update sees only table columns. */
const findElement = (array: string) => `(${array})[array_position($1::text[], counter.key::text)]`;

/**
 * Statement that counts requests of several keys. All such statements lock their rows in the order of the keys, so they
 * cannot block each other.
 */
const ADD_SEVERAL_STATEMENT = {
  name: "count requests of several keys",
  text: buildAddSql(
    `SELECT key, requests + used, coalesce(ends_at, ${NOW_MS} + window_ms)
    FROM set_config('lock_timeout', $6, true),
      unnest($1::text[], $2::integer[], $3::integer[], $4::bigint[], $5::integer[])
        AS addition (key, requests, used, ends_at, window_ms)
    ORDER BY key`,
    findElement("$2::integer[]"),
    findElement("$5::integer[]"),
  ),
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

/**
 * Time limit for counting in Postgres. It is longer than the server's statement timeout, so that a slow statement
 * fails with the server's error. Milliseconds.
 */
export const COUNT_TIMEOUT_MS = 1_200;

/** Maximum number of keys in one statement. */
const MAX_KEYS = 200;

/**
 * Time for which keys wait for the previous statement, and for which a statement with several keys waits for locked
 * rows. Milliseconds.
 */
const MAX_WAIT_MS = 20;

/** SQLSTATE of a statement that waited too long for a lock. */
const LOCK_TIMEOUT_SQLSTATE = "55P03";

/** Adds requests to the current window of a key, and returns the window. */
export type AddRequests = (addition: CounterAddition) => Promise<Count>;

/** Counts by key. A count that takes longer than the others is a promise. */
type Counts = ReadonlyMap<string, Count | Promise<Count>>;

/**
 * Creates a function that adds requests to the windows of keys. One statement counts all keys whose requests arrived
 * during the previous statement. If a row is locked, it delays other keys by at most twice {@link MAX_WAIT_MS}.
 */
export function createRequestAdder(pool: pg.Pool): AddRequests {
  let previousStatement: Promise<unknown> = Promise.resolve();
  let nextAdditions = new Map<string, CounterAddition>();
  let nextCounts: Promise<Counts> | undefined;

  function startBatch(): Promise<Counts> {
    const additions = new Map<string, CounterAddition>();
    const countsPromise = previousStatement.then(() => {
      if (nextAdditions === additions) nextCounts = undefined;
      return addTogether(pool, [...additions.values()]);
    });
    // The callers handle a failed statement. The next statement only waits for its end.
    previousStatement = previousStatement.then(() => settlesWithin(countsPromise, MAX_WAIT_MS)).catch(() => undefined);
    nextAdditions = additions;
    return countsPromise;
  }

  return async (addition) => {
    // A statement cannot change a row twice.
    if (nextAdditions.size >= MAX_KEYS || nextAdditions.has(addition.key)) nextCounts = undefined;
    nextCounts ??= startBatch();
    nextAdditions.set(addition.key, addition);
    const counts = await nextCounts;
    // If the statement waited for a lock, the window may be newer than the statement's time.
    const { used, endsAt, endsInMs } = (await counts.get(addition.key)) as Count;
    return { used, endsAt, endsInMs: Math.min(endsInMs, addition.windowMs) };
  };
}

/** Adds requests of several keys. If a row is locked, each key is counted separately, so that only its own key waits. */
async function addTogether(pool: pg.Pool, additions: readonly CounterAddition[]): Promise<Counts> {
  const [firstAddition, ...otherAdditions] = additions as [CounterAddition, ...CounterAddition[]];
  if (otherAdditions.length === 0) return new Map([[firstAddition.key, await addRequests(pool, firstAddition)]]);
  try {
    return await addSeveral(pool, additions);
  } catch (error) {
    if ((error as { code?: unknown }).code !== LOCK_TIMEOUT_SQLSTATE) throw error;
    return new Map(additions.map((addition) => [addition.key, addRequests(pool, addition)]));
  }
}

/**
 * Adds requests to the current window of one key, and returns the window.
 *
 * @throws {TimeoutError} after {@link COUNT_TIMEOUT_MS}
 */
export async function addRequests(pool: pg.Pool, addition: CounterAddition): Promise<Count> {
  const [count] = await runStatement(pool, ADD_STATEMENT, listValues(addition));
  return count as Count;
}

async function addSeveral(pool: pg.Pool, additions: readonly CounterAddition[]): Promise<Counts> {
  const rows = additions.map(listValues);
  const arrays = [0, 1, 2, 3, 4].map((column) => rows.map((row) => row[column]));
  const counts = await runStatement(pool, ADD_SEVERAL_STATEMENT, [...arrays, String(MAX_WAIT_MS)]);
  return new Map(counts.map((count) => [count.key, count]));
}

function listValues({ key, requests, window, windowMs }: CounterAddition): (string | number | null)[] {
  return [key, requests, window?.used ?? 0, window?.endsAt ?? null, windowMs];
}

async function runStatement(pool: pg.Pool, statement: { name: string; text: string }, values: readonly unknown[]) {
  const queryPromise = pool.query<Count & { key: string }>({ ...statement, values: [...values] });
  return (await withTimeout(COUNT_TIMEOUT_MS, queryPromise)).rows;
}

/** Removes counters whose windows have ended. */
export async function removeEndedCounters(pool: pg.Pool): Promise<void> {
  await pool.query(REMOVE_STATEMENT);
}
