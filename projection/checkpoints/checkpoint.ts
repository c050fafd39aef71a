import type { ClientBase, Pool } from "pg";

/** Name of the only checkpoint in each schema. All read models of the schema reflect the log up to this checkpoint. */
export const CHECKPOINT_NAME = "read_models";

/**
 * Last event that was processed at or before a checkpoint. The event identifies the log, because no other log holds the
 * same event at the same position. The event belongs to a catalog stream, and catalog streams are never deleted.
 */
export interface Anchor {
  position: bigint;
  eventId: string;
}

/** Position in the log up to which all events were processed. */
export interface Checkpoint {
  position: bigint;
  /**
   * Null before the first event. Also null after an upgrade from a release without anchors, until the next batch is
   * written.
   */
  anchor: Anchor | null;
}

/** Checkpoint of the read models in a schema. */
export interface ReadModelCheckpoint extends Checkpoint {
  /** Object id of the checkpoint table. A rebuild replaces all tables, so the id changes. */
  tableOid: string;
  /** Fingerprint of the table definitions, see `fingerprintOf`. */
  fingerprint: string;
}

export async function readCheckpoint(db: Pool | ClientBase, schema: string): Promise<ReadModelCheckpoint> {
  const { rows } = await db.query<Omit<ReadModelCheckpoint, "anchor"> & AnchorColumns>(
    `SELECT position, anchor_position, anchor_event_id, tableoid::text AS "tableOid", shape AS fingerprint
       FROM ${schema}.checkpoint WHERE name = $1`,
    [CHECKPOINT_NAME],
  );
  const [row] = rows;
  if (!row) throw new Error(`Schema ${schema} has no checkpoint.`);
  const { position, tableOid, fingerprint } = row;
  return { position, tableOid, fingerprint, anchor: toAnchor(row) };
}

/** Reads the log position that the read models of a schema reflect. */
export async function readPosition(db: Pool | ClientBase, schema: string): Promise<bigint> {
  return (await readCheckpoint(db, schema)).position;
}

/** Database columns of an anchor. */
export interface AnchorColumns {
  anchor_position: bigint | null;
  anchor_event_id: string | null;
}

export function toAnchor({ anchor_position, anchor_event_id }: AnchorColumns): Anchor | null {
  if (anchor_position === null || anchor_event_id === null) return null;
  return { position: anchor_position, eventId: anchor_event_id };
}
