import type { ClientBase, Pool } from "pg";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/log-end.ts";
import { type Anchor, type AnchorColumns, type Checkpoint, toAnchor } from "./checkpoint.ts";

/** Another process moved the checkpoint, so this process no longer leads the relay. */
export class CheckpointLostError extends Error {
  override readonly name = "CheckpointLostError";
}

/** Reads the relay's checkpoint. The deliveries of all events up to this position are in the database. */
export async function readRelayCheckpoint(db: Pool | ClientBase): Promise<Checkpoint> {
  const { rows } = await db.query<{ position: bigint } & AnchorColumns>(
    "SELECT position, anchor_position, anchor_event_id FROM webhooks.relay_checkpoint",
  );
  const [row] = rows;
  return row ? { position: row.position, anchor: toAnchor(row) } : { position: BEFORE_FIRST_EVENT, anchor: null };
}

/**
 * Moves the checkpoint, unless another process has moved it.
 *
 * @param oldCheckpoint checkpoint that this process last read or wrote
 * @param anchor last event that was processed
 * @throws {CheckpointLostError} if the checkpoint is not at `oldCheckpoint`, or belongs to another log
 */
export async function moveRelayCheckpoint(pool: Pool, oldCheckpoint: Checkpoint, anchor: Anchor): Promise<void> {
  const { rowCount } = await pool.query({
    name: "move relay checkpoint",
    text: `INSERT INTO webhooks.relay_checkpoint (position, anchor_position, anchor_event_id) SELECT $3, $3, $4
             WHERE $1::bigint = ${BEFORE_FIRST_EVENT} OR EXISTS (SELECT FROM webhooks.relay_checkpoint WHERE position = $1)
           ON CONFLICT (only_row) DO UPDATE
             SET position = $3, anchor_position = $3, anchor_event_id = $4
             WHERE relay_checkpoint.position = $1 AND relay_checkpoint.anchor_event_id IS NOT DISTINCT FROM $2`,
    values: [oldCheckpoint.position, oldCheckpoint.anchor?.eventId ?? null, anchor.position, anchor.eventId],
  });
  if (rowCount !== 1)
    throw new CheckpointLostError(`The relay's checkpoint is no longer at position ${oldCheckpoint.position}.`);
}

/** Sets the checkpoint unconditionally. Only operators' commands may call this function. */
export async function setRelayCheckpoint(connection: ClientBase, { position, anchor }: Checkpoint): Promise<void> {
  await connection.query("DELETE FROM webhooks.relay_checkpoint");
  if (position === BEFORE_FIRST_EVENT) return;
  await connection.query(
    "INSERT INTO webhooks.relay_checkpoint (position, anchor_position, anchor_event_id) VALUES ($1, $2, $3)",
    [position, anchor?.position, anchor?.eventId],
  );
}
