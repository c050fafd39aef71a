import type { ClientBase, Pool } from "pg";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import type { Checkpoint, EventCheckpoint } from "./checkpoint.ts";

/** Another process moved the checkpoint, so this process no longer leads the relay. */
export class CheckpointLostError extends Error {
  override readonly name = "CheckpointLostError";
}

/** Reads the relay's checkpoint. The deliveries of all events up to this position are in the database. */
export async function readRelayCheckpoint(db: Pool | ClientBase): Promise<Checkpoint> {
  const { rows } = await db.query<Checkpoint>('SELECT position, event_id AS "eventId" FROM webhooks.relay_checkpoint');
  return rows[0] ?? { position: BEFORE_FIRST_EVENT, eventId: null };
}

/**
 * Moves the checkpoint, unless another process has moved it.
 *
 * @param oldCheckpoint checkpoint that this process last read or wrote
 * @param revocationPosition position of the last event that may revoke access. The senders stop until the read models
 *   include this event
 * @throws {CheckpointLostError} if the checkpoint is not at `oldCheckpoint`, or belongs to another log
 */
export async function moveRelayCheckpoint(
  pool: Pool,
  oldCheckpoint: Checkpoint,
  newCheckpoint: EventCheckpoint,
  revocationPosition = BEFORE_FIRST_EVENT,
): Promise<void> {
  const { rowCount } = await pool.query({
    name: "move relay checkpoint",
    text: `INSERT INTO webhooks.relay_checkpoint (position, event_id, revocation_position) SELECT $3, $4, $5
             WHERE $1::bigint = ${BEFORE_FIRST_EVENT} OR EXISTS (SELECT FROM webhooks.relay_checkpoint WHERE position = $1)
           ON CONFLICT (only_row) DO UPDATE
             SET position = $3, event_id = $4,
                 revocation_position = GREATEST(relay_checkpoint.revocation_position, $5)
             WHERE relay_checkpoint.position = $1 AND relay_checkpoint.event_id = $2`,
    values: [
      ...[oldCheckpoint.position, oldCheckpoint.eventId],
      ...[newCheckpoint.position, newCheckpoint.eventId, revocationPosition],
    ],
  });
  if (rowCount !== 1)
    throw new CheckpointLostError(`The relay's checkpoint is no longer at position ${oldCheckpoint.position}.`);
}

/** Sets the checkpoint unconditionally. Only operators' commands may call this function. */
export async function setRelayCheckpoint(connection: ClientBase, { position, eventId }: Checkpoint): Promise<void> {
  await connection.query("DELETE FROM webhooks.relay_checkpoint");
  if (position === BEFORE_FIRST_EVENT) return;
  await connection.query("INSERT INTO webhooks.relay_checkpoint (position, event_id) VALUES ($1, $2)", [
    position,
    eventId,
  ]);
}
