import type pg from "pg";
import { closeConnection, connectWithoutTimeouts } from "../../shared/postgres/pool.ts";
import { StartError } from "../../shared/runtime/run-service.ts";

/**
 * Runs something that builds tables beside those that serve: one at a time in a database, since a swap would take the
 * tables away that a comparison looks at.
 *
 * @param work gets a connection of its own without a statement timeout
 * @throws {StartError} where another one runs
 */
export async function withMaintenance<Result>(
  pool: pg.Pool,
  work: (connection: pg.ClientBase) => Promise<Result>,
): Promise<Result> {
  const connection = await connectWithoutTimeouts(pool);
  try {
    const { rows } = await connection.query<{ held: boolean }>(
      "SELECT pg_try_advisory_lock(hashtextextended('rebuild', 0)) AS held",
    );
    if (!rows[0]?.held) throw new StartError("another rebuild or verify runs");
    try {
      return await work(connection);
    } finally {
      await unlock(connection);
    }
  } finally {
    await closeConnection(connection);
  }
}

/** Given back before the connection's end, so that who comes next need not wait for the server to notice that. */
async function unlock(connection: pg.ClientBase): Promise<void> {
  try {
    await connection.query("ROLLBACK");
    await connection.query("SELECT pg_advisory_unlock_all()");
  } catch {
    // A connection that broke has given it back.
  }
}
