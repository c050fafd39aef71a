import type { ClientBase, Pool } from "pg";

/** Schema that the query API reads. A rebuild fills another schema and renames it. */
export const READ_MODEL_SCHEMA = "read_model";

/** Name of the only checkpoint in each schema. All read models of the schema reflect the log up to it. */
export const CHECKPOINT = "read_models";

/** Position of a checkpoint before the first event. */
export const BEFORE_FIRST = -1n;

/**
 * Last event that was processed at or before a checkpoint. It identifies the log of the checkpoint: only that log has
 * this event at this position. The event is in one of the catalog's streams, which are never deleted.
 */
export interface Anchor {
  position: bigint;
  eventId: string;
}

/** Position in the log up to which all events were processed. */
export interface Checkpoint {
  position: bigint;
  /** Null before the first event, and until the first batch after an upgrade from a release without anchors. */
  anchor: Anchor | null;
}

/** Checkpoint of the read models in a schema. */
export interface ReadModelCheckpoint extends Checkpoint {
  /** Object id of the checkpoint table. It changes when a rebuild replaces the tables. */
  tables: string;
  /** Fingerprint of the table definitions, see `shapeOf`. */
  shape: string;
}

export async function readCheckpoint(db: Pool | ClientBase, schema: string): Promise<ReadModelCheckpoint> {
  const { rows } = await db.query<Omit<ReadModelCheckpoint, "anchor"> & StoredAnchor>(
    `SELECT position, anchor_position, anchor_event_id, tableoid::text AS tables, shape
       FROM ${schema}.checkpoint WHERE name = $1`,
    [CHECKPOINT],
  );
  const [row] = rows;
  if (!row) throw new Error(`Schema ${schema} has no checkpoint.`);
  const { position, tables, shape } = row;
  return { position, tables, shape, anchor: toAnchor(row) };
}

/** Reads the log position that the read models of a schema reflect. */
export async function readPosition(db: Pool | ClientBase, schema: string): Promise<bigint> {
  return (await readCheckpoint(db, schema)).position;
}

/** Columns of an anchor. */
export interface StoredAnchor {
  anchor_position: bigint | null;
  anchor_event_id: string | null;
}

export function toAnchor({ anchor_position, anchor_event_id }: StoredAnchor): Anchor | null {
  if (anchor_position === null || anchor_event_id === null) return null;
  return { position: anchor_position, eventId: anchor_event_id };
}
