import type pg from "pg";
import { requireOwnSession } from "../../shared/postgres/long-lived-connection.ts";
import { closeConnection, connectWithoutTimeouts } from "../../shared/postgres/pool.ts";
import { StartError } from "../../shared/runtime/run-service.ts";

/**
 * Runs a rebuild or a verify. Only one rebuild or verify can run in a database at a time, because a rebuild would
 * replace the tables that a verify reads.
 *
 * @param run receives a separate connection without a statement timeout
 * @throws {StartError} if another rebuild or verify is running, or if the connection could lose the lock
 */
export async function withMaintenanceLock<Result>(
  pool: pg.Pool,
  run: (connection: pg.ClientBase) => Promise<Result>,
): Promise<Result> {
  const connection = await connectWithoutTimeouts(pool);
  try {
    await requireOwnSession(connection, () => connectWithoutTimeouts(pool));
    const { rows } = await connection.query<{ held: boolean }>(
      "SELECT pg_try_advisory_lock(hashtextextended('rebuild', 0)) AS held",
    );
    if (!rows[0]?.held)
      throw new StartError("Another rebuild or verify is running. Wait for it to end, then try again.");
    try {
      return await run(connection);
    } finally {
      await unlock(connection);
    }
  } finally {
    await closeConnection(connection);
  }
}

/** Releases the lock explicitly, because the server may not notice immediately that the connection has ended. */
async function unlock(connection: pg.ClientBase): Promise<void> {
  try {
    await connection.query("ROLLBACK");
    await connection.query("SELECT pg_advisory_unlock_all()");
  } catch {
    // If the connection is broken, the server releases the lock.
  }
}
