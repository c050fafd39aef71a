import type pg from "pg";

/** Another process moved the checkpoint: this one no longer leads. */
export class LostCheckpoint extends Error {
  override readonly name = "LostCheckpoint";
}

/** Before the first event of the log. */
export const LOG_START = -1n;

/** Up to where everything is known to have become delivery rows. */
export async function readRelayCheckpoint(pool: pg.Pool): Promise<bigint> {
  const { rows } = await pool.query<{ position: bigint }>("SELECT position FROM webhooks.relay_checkpoint");
  return rows[0]?.position ?? LOG_START;
}

/**
 * Moves the checkpoint from where this process left it.
 *
 * @throws {LostCheckpoint} where it is elsewhere
 */
export async function moveRelayCheckpoint(pool: pg.Pool, from: bigint, to: bigint): Promise<void> {
  const { rowCount } = await pool.query({
    name: "move relay checkpoint",
    text: `INSERT INTO webhooks.relay_checkpoint (position) SELECT $2
             WHERE $1 = ${LOG_START} OR EXISTS (SELECT FROM webhooks.relay_checkpoint WHERE position = $1)
           ON CONFLICT (only_row) DO UPDATE SET position = excluded.position
             WHERE relay_checkpoint.position = $1`,
    values: [from, to],
  });
  if (rowCount !== 1) throw new LostCheckpoint(`the relay's checkpoint is no longer at ${from}`);
}
