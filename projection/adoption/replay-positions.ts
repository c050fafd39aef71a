import type pg from "pg";
import { closeConnection, connectWithoutTimeouts } from "../../shared/postgres/pool.ts";

/**
 * Deletes the log positions of replay requests that do not exist in the adopted log. Otherwise, a later request at a
 * lower position of the adopted log would be ignored.
 *
 * @param after last log position that the adopted log shares with the former log
 */
export async function deleteReplayPositions(pool: pg.Pool, after: bigint): Promise<void> {
  const connection = await connectWithoutTimeouts(pool);
  try {
    await connection.query("UPDATE webhooks.delivery SET replay_position = NULL WHERE replay_position > $1", [after]);
  } finally {
    await closeConnection(connection);
  }
}
