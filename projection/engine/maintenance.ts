import type pg from "pg";
import { tryLock } from "../../shared/postgres/leadership.ts";
import { requireOwnSession } from "../../shared/postgres/long-lived-connection.ts";
import { closeConnection, connectWithoutTimeouts } from "../../shared/postgres/pool.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { isLockTimeout } from "../../shared/runtime/failures.ts";
import { StartError } from "../../shared/runtime/run-service.ts";

/**
 * Runs a rebuild, verify, prune or scrub with the maintenance lock. Only one of them can run in a database at a time,
 * because a rebuild, for example, would replace the tables that a verify reads.
 *
 * @param run receives a separate connection without a statement timeout
 * @throws {StartError} if another process holds the lock, or a connection pooler shares the database session
 */
export async function withMaintenanceLock<Result>(
  pool: pg.Pool,
  run: (connection: pg.ClientBase) => Promise<Result>,
): Promise<Result> {
  const connection = await connectWithoutTimeouts(pool);
  try {
    await requireOwnSession(connection, () => connectWithoutTimeouts(pool));
    if (!(await tryLock(connection, "rebuild"))) {
      throw new StartError("A rebuild, verify, prune or scrub is running. Wait for it to end, then try again.");
    }
    try {
      return await run(connection);
    } finally {
      // The server may not notice immediately that the connection has ended. If it is broken, the server frees the lock.
      await connection.query("ROLLBACK; SELECT pg_advisory_unlock_all()").catch(() => undefined);
    }
  } finally {
    await closeConnection(connection);
  }
}

/**
 * Time limit for locking tables, because a waiting lock blocks new queries. Shorter than the deadlock timeout of
 * Postgres.
 */
export const LOCK_TIMEOUT_MS = 200;

export const LOCK_RETRY_INTERVAL_MS = 500;

/** Runs a statement. @returns false if the lock timeout expired before the statement had locked its tables */
export async function runUnlessLocked(connection: pg.ClientBase, statement: string): Promise<boolean> {
  try {
    await connection.query(statement);
    return true;
  } catch (error) {
    if (isLockTimeout(error)) return false;
    throw error;
  }
}

/**
 * Runs a statement as soon as it can lock its tables. Returns without running it if the signal aborts first.
 *
 * Other sessions may lock the tables in another order. The lock timeout is shorter than the deadlock timeout of
 * Postgres, so this statement gives up before Postgres reports a deadlock, and is tried again.
 */
export async function runWhenUnlocked(
  connection: pg.ClientBase,
  statement: string,
  signal: AbortSignal,
): Promise<void> {
  await connection.query(`SET lock_timeout = ${LOCK_TIMEOUT_MS}`);
  try {
    while (!signal.aborted && !(await runUnlessLocked(connection, statement)))
      await pause(LOCK_RETRY_INTERVAL_MS, signal);
  } finally {
    await connection.query("RESET lock_timeout");
  }
}

/** Drops a schema of read models, if it exists, as soon as its tables can be locked. */
export function dropSchema(connection: pg.ClientBase, schema: string, signal: AbortSignal): Promise<void> {
  return runWhenUnlocked(connection, `DROP SCHEMA IF EXISTS ${schema} CASCADE`, signal);
}
