import type pg from "pg";
import { isPostgresUnavailable } from "../../../shared/postgres/unavailable.ts";

/** Runs work in one transaction. Any error rolls the transaction back. */
export async function inTransaction<T>(pool: pg.Pool, run: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let connectionError: Error | undefined;
  try {
    await client.query("BEGIN");
    const result = await run(client);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    if (isPostgresUnavailable(error)) connectionError = error as Error;
    // If the connection breaks, the server rolls back by itself. Errors of ROLLBACK are ignored, because they would
    // hide the original error.
    else await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  } finally {
    client.release(connectionError);
  }
}
