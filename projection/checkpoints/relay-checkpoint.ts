import type { ClientBase, Pool } from "pg";
import { type Anchor, type Checkpoint, type StoredAnchor, toAnchor } from "./checkpoint.ts";

/** Another process moved the checkpoint: this one no longer leads. */
export class LostCheckpoint extends Error {
  override readonly name = "LostCheckpoint";
}

/** Before the first event of the log. */
export const LOG_START = -1n;

/** Up to where everything is known to have become delivery rows. */
export async function readRelayCheckpoint(pool: Pool | ClientBase): Promise<Checkpoint> {
  const { rows } = await pool.query<{ position: bigint } & StoredAnchor>(
    "SELECT position, anchor_position, anchor_event_id FROM webhooks.relay_checkpoint",
  );
  const [row] = rows;
  return row ? { position: row.position, anchor: toAnchor(row) } : { position: LOG_START, anchor: null };
}

/**
 * Moves the checkpoint from where this process left it.
 *
 * @param to the last event that was handled
 * @throws {LostCheckpoint} if the checkpoint is elsewhere, or at another log's event
 */
export async function moveRelayCheckpoint(pool: Pool, from: Checkpoint, to: Anchor): Promise<void> {
  const { rowCount } = await pool.query({
    name: "move relay checkpoint",
    text: `INSERT INTO webhooks.relay_checkpoint (position, anchor_position, anchor_event_id) SELECT $3, $3, $4
             WHERE $1::bigint = ${LOG_START} OR EXISTS (SELECT FROM webhooks.relay_checkpoint WHERE position = $1)
           ON CONFLICT (only_row) DO UPDATE
             SET position = $3, anchor_position = $3, anchor_event_id = $4
             WHERE relay_checkpoint.position = $1 AND relay_checkpoint.anchor_event_id IS NOT DISTINCT FROM $2`,
    values: [from.position, from.anchor?.eventId ?? null, to.position, to.eventId],
  });
  if (rowCount !== 1) throw new LostCheckpoint(`the relay's checkpoint is no longer at ${from.position}`);
}

/** Puts the checkpoint at a place, wherever it is: an operator's decision. */
export async function setRelayCheckpoint(
  connection: ClientBase,
  { position, anchor }: Checkpoint,
): Promise<void> {
  await connection.query("DELETE FROM webhooks.relay_checkpoint");
  if (position === LOG_START) return;
  await connection.query(
    "INSERT INTO webhooks.relay_checkpoint (position, anchor_position, anchor_event_id) VALUES ($1, $2, $3)",
    [position, anchor?.position, anchor?.eventId],
  );
}
