import pg from "pg";

/**
 * Time limit for locking tables. The lock waits for running queries and blocks new queries. The limit is shorter than
 * the time after which Postgres reports a deadlock. Milliseconds.
 */
export const LOCK_TIMEOUT_MS = 200;

/** SQLSTATE: a lock was not available in time. */
const LOCK_NOT_AVAILABLE = "55P03";

/** Runs a statement. @returns false if the lock timeout expired before the statement had locked its tables */
export async function runIfLockable(connection: pg.ClientBase, statement: string): Promise<boolean> {
  try {
    await connection.query(statement);
    return true;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE) return false;
    throw error;
  }
}
