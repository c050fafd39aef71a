import type { ClientBase, Pool } from "pg";

/** The schema that the query side reads. A rebuild fills another one and renames it. */
export const READ_MODEL_SCHEMA = "read_model";

/** The name of the one checkpoint in each schema: every read model of the schema reflects the log up to there. */
export const CHECKPOINT = "read_models";

/** Where the checkpoint stands before the first event. */
export const BEFORE_FIRST = -1n;

/**
 * The last event that was handled at or before a checkpoint. It identifies the log that the checkpoint belongs to: only
 * that log has this event at this position. It is an event of the catalog's streams, which are never deleted.
 */
export interface Anchor {
  position: bigint;
  eventId: string;
}

/** The place in the log up to which everything was handled. */
export interface Checkpoint {
  position: bigint;
  /** Null before the first event, and until the first batch after an upgrade from a release without anchors. */
  anchor: Anchor | null;
}

/** Where the read models of a schema stand. */
export interface ReadModelCheckpoint extends Checkpoint {
  /** Which tables they are: a rebuild puts others in their place, under the same names. */
  tables: string;
  /** Fingerprint of the release that built the tables, see `shapeOf`. */
  shape: string;
}

export async function readCheckpoint(db: Pool | ClientBase, schema: string): Promise<ReadModelCheckpoint> {
  const { rows } = await db.query<Omit<ReadModelCheckpoint, "anchor"> & StoredAnchor>(
    `SELECT position, anchor_position, anchor_event_id, tableoid::text AS tables, shape
       FROM ${schema}.checkpoint WHERE name = $1`,
    [CHECKPOINT],
  );
  const [row] = rows;
  if (!row) throw new Error(`schema ${schema} has no checkpoint`);
  const { position, tables, shape } = row;
  return { position, tables, shape, anchor: toAnchor(row) };
}

/** The log position that the read models of a schema reflect. */
export async function readPosition(db: Pool | ClientBase, schema: string): Promise<bigint> {
  return (await readCheckpoint(db, schema)).position;
}

/** The columns of an anchor. */
export interface StoredAnchor {
  anchor_position: bigint | null;
  anchor_event_id: string | null;
}

export function toAnchor({ anchor_position, anchor_event_id }: StoredAnchor): Anchor | null {
  if (anchor_position === null || anchor_event_id === null) return null;
  return { position: anchor_position, eventId: anchor_event_id };
}
