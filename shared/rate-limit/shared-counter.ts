import type pg from "pg";
import { isLockTimeout } from "../runtime/failures.ts";
import { settlesWithin, withTimeout } from "../runtime/timeout.ts";

export interface Count {
  /** Number of requests in the window, including this request. If it exceeds the limit, the request is refused. */
  used: number;
  /**
   * End of the window by the clock of Postgres, in milliseconds since 1970. All requests in a window have the same
   * value.
   */
  endsAt: number;
  endsInMs: number;
}

interface CounterAddition {
  key: string;
  requests: number;
  windowMs: number;
  /** Last known window of the key. If the key's row is missing in Postgres, the statement continues this window. */
  window: Pick<Count, "used" | "endsAt"> | undefined;
}

const NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

/**
 * Returns SQL for the element of an array that belongs to the key of the current row. DO UPDATE sees only table
 * columns, so it cannot join the array.
 */
const findElement = (array: string) => `(${array})[array_position($1::text[], counter.key::text)]`;

/**
 * Statement that counts requests of several keys. If the window of a key has ended, the statement starts a new window.
 * If a row is missing, the statement continues the caller's last known window. All such statements lock their rows in
 * the order of the keys, so they cannot cause a deadlock.
 */
const ADD_STATEMENT = {
  name: "count requests",
  text: `
    INSERT INTO rate_limit.counter AS counter (key, points, expire)
    SELECT key, requests + used, coalesce(ends_at, ${NOW_MS} + window_ms)
    FROM set_config('lock_timeout', $6, true),
      unnest($1::text[], $2::integer[], $3::integer[], $4::bigint[], $5::integer[])
        AS addition (key, requests, used, ends_at, window_ms)
    ORDER BY key
    ON CONFLICT (key) DO UPDATE SET
      points = CASE WHEN counter.expire > ${NOW_MS} THEN counter.points ELSE 0 END + ${findElement("$2::integer[]")},
      expire = CASE WHEN counter.expire > ${NOW_MS} THEN counter.expire
        ELSE ${NOW_MS} + ${findElement("$5::integer[]")} END
    RETURNING key, points AS used, expire::float8 AS "endsAt", (expire - ${NOW_MS})::float8 AS "endsInMs"`,
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
 * Time limit for counting in Postgres. This limit is longer than the server's statement timeout, so that a slow
 * statement fails with the server's error.
 */
export const COUNT_TIMEOUT_MS = 1_200;

const MAX_KEYS = 200;

/** Time limit for two waits: for the previous statement, and for locked rows in a statement with several keys. */
const MAX_WAIT_MS = 20;

type AddRequests = (addition: CounterAddition) => Promise<Count>;

/** Counts by key. They are promises if each key is counted separately. */
type Counts = ReadonlyMap<string, Count | Promise<Count>>;

/**
 * Creates a function that adds requests to the windows of keys. One statement counts all keys whose requests arrived
 * during the previous statement. A locked row delays other keys by at most twice {@link MAX_WAIT_MS}.
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

/** Adds requests of several keys. If a row is locked, counts each key separately, so that only the locked key waits. */
async function addTogether(pool: pg.Pool, additions: readonly CounterAddition[]): Promise<Counts> {
  try {
    return await runAddStatement(pool, additions, additions.length > 1 ? MAX_WAIT_MS : 0);
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    return new Map(additions.map((addition) => [addition.key, addRequests(pool, addition)]));
  }
}

/**
 * Adds requests to the current window of one key, and returns the window.
 *
 * @throws {TimeoutError} after {@link COUNT_TIMEOUT_MS}
 */
export async function addRequests(pool: pg.Pool, addition: CounterAddition): Promise<Count> {
  return (await runAddStatement(pool, [addition], 0)).get(addition.key) as Count;
}

/** @param lockTimeoutMs time limit for waiting for a locked row; 0 for no limit */
async function runAddStatement(
  pool: pg.Pool,
  additions: readonly CounterAddition[],
  lockTimeoutMs: number,
): Promise<ReadonlyMap<string, Count>> {
  const values = [
    additions.map(({ key }) => key),
    additions.map(({ requests }) => requests),
    additions.map(({ window }) => window?.used ?? 0),
    additions.map(({ window }) => window?.endsAt ?? null),
    additions.map(({ windowMs }) => windowMs),
    String(lockTimeoutMs),
  ];
  const queryPromise = pool.query<Count & { key: string }>({ ...ADD_STATEMENT, values });
  const { rows } = await withTimeout(COUNT_TIMEOUT_MS, queryPromise);
  return new Map(rows.map((row) => [row.key, row]));
}

export async function removeEndedCounters(pool: pg.Pool): Promise<void> {
  await pool.query(REMOVE_STATEMENT);
}
