import type { ClientBase, Pool } from "pg";

/** Name of the only checkpoint in each schema. All read models of the schema reflect the log up to this checkpoint. */
export const CHECKPOINT_NAME = "read_models";

/** Position in the log up to which all events were processed. */
export interface Checkpoint {
  position: bigint;
  /**
   * Id of the last processed event, which is the event at `position`. It identifies the log, because no other log holds
   * the same event at the same position. The event belongs to a catalog stream, and catalog streams are never deleted.
   * Null before the first event.
   */
  eventId: string | null;
}

export interface EventCheckpoint extends Checkpoint {
  eventId: string;
}

export interface ReadModelCheckpoint extends Checkpoint {
  /** Object id of the checkpoint table. A rebuild replaces all tables, so the id changes. */
  tableOid: string;
  /** Fingerprint of the table definitions, see `computeFingerprint`. */
  fingerprint: string;
}

export async function readCheckpoint(db: Pool | ClientBase, schema: string): Promise<ReadModelCheckpoint> {
  const { rows } = await db.query<ReadModelCheckpoint>(
    `SELECT position, event_id AS "eventId", tableoid::text AS "tableOid", fingerprint
       FROM ${schema}.checkpoint WHERE name = $1`,
    [CHECKPOINT_NAME],
  );
  const [checkpoint] = rows;
  if (!checkpoint) throw new Error(`Schema ${schema} has no checkpoint.`);
  return checkpoint;
}

/**
 * Records that the read models of a schema have reached the end of the log. Until then, they contain states of the
 * past, so neither queries nor webhooks may use them.
 */
export async function markFilled(pool: Pool, schema: string): Promise<void> {
  await pool.query(`UPDATE ${schema}.checkpoint SET filled = true WHERE NOT filled`);
}

/** Returns true if the read models of a schema have ever reached the end of the log. */
export async function isFilled(pool: Pool, schema: string): Promise<boolean> {
  const { rows } = await pool.query<{ filled: boolean }>(`SELECT filled FROM ${schema}.checkpoint`);
  return rows[0]?.filled === true;
}
