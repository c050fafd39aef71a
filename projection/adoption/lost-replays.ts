import type pg from "pg";
import { closeConnection, connectWithoutTimeouts } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";

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

/**
 * Deletes the progress of replays whose request is not in the adopted log. A repeated request has the same replay id,
 * so it would otherwise inherit the progress, and may never start. A request that is newer than the progress was
 * repeated after the log was replaced. The read models must already be those of the adopted log.
 */
export async function deleteLostProgress(connection: pg.ClientBase): Promise<void> {
  await connection.query(
    `DELETE FROM webhooks.replay w WHERE NOT EXISTS (
       SELECT FROM ${READ_MODEL_SCHEMA}.webhook_replay r
        WHERE r.replay_id = w.replay_id AND r.requested_at <= w.updated_at)`,
  );
}
