import type { ClientBase, Pool } from "pg";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";

/** Position in the log up to which all events were processed. */
export interface Checkpoint {
  position: bigint;
  /**
   * Id of the event at `position`; null before the first event. The id shows that a log is the original log, because no
   * other log holds this event at this position. The event is never deleted, because it belongs to a catalog stream.
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

/**
 * Name of a webhook checkpoint. All public events up to `deliveries` have deliveries in the database, and all public
 * events up to `messages` have messages in NATS.
 */
export type WebhookCheckpointName = "deliveries" | "messages";

/** Reads the checkpoint of a schema. All read models of the schema reflect the log up to this checkpoint. */
export async function readCheckpoint(db: Pool | ClientBase, schema: string): Promise<ReadModelCheckpoint> {
  const { rows } = await db.query<ReadModelCheckpoint>(
    `SELECT position, event_id AS "eventId", tableoid::text AS "tableOid", fingerprint FROM ${schema}.checkpoint`,
  );
  const [checkpoint] = rows;
  if (!checkpoint) throw new Error(`Schema ${schema} has no checkpoint.`);
  return checkpoint;
}

/**
 * Records that the read models of a schema have reached the end of the log. Until then, they contain states of the
 * past, so neither queries nor webhooks may use them. If there are no webhook checkpoints yet, creates them at this
 * position, so that partners receive only later events.
 */
export async function markFilled(pool: Pool, schema: string): Promise<void> {
  await pool.query(
    `WITH filled AS (UPDATE ${schema}.checkpoint SET filled = true WHERE NOT filled RETURNING position, event_id)
     INSERT INTO webhooks.checkpoint (name, position, event_id, read_models)
     SELECT name, position, event_id, $1 FROM filled, unnest(ARRAY['deliveries', 'messages']) AS n (name)
     ON CONFLICT DO NOTHING`,
    [READ_MODEL_SCHEMA],
  );
}

/** Returns true if the read models of a schema have ever reached the end of the log. */
export async function isFilled(pool: Pool, schema: string): Promise<boolean> {
  const { rows } = await pool.query<{ filled: boolean }>(`SELECT filled FROM ${schema}.checkpoint`);
  return rows[0]?.filled === true;
}
