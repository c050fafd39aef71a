import type { ClientBase, Pool } from "pg";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import { inTransaction } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { type Checkpoint, readCheckpoint, type WebhookCheckpointName } from "./checkpoint.ts";
import { recordMissingEvents } from "./late-events.ts";

export interface WebhookCheckpoint extends Checkpoint {
  /** Schema of the read models that provided the public events up to the checkpoint. */
  readModels: string;
  /** Last JetStream sequence number that NATS confirmed. */
  sequence: bigint;
}

const COLUMNS = 'position, event_id AS "eventId", read_models AS "readModels", sequence';

/** Reads a checkpoint. Until the read models are filled for the first time, its position is before all events. */
export async function readWebhookCheckpoint(
  db: Pool | ClientBase,
  name: WebhookCheckpointName,
): Promise<WebhookCheckpoint> {
  const { rows } = await db.query<WebhookCheckpoint>(`SELECT ${COLUMNS} FROM webhooks.checkpoint WHERE name = $1`, [
    name,
  ]);
  return rows[0] ?? { position: BEFORE_FIRST_EVENT, eventId: null, readModels: READ_MODEL_SCHEMA, sequence: 0n };
}

/** Sets all checkpoints unconditionally. Only operators' commands may call this function. */
export async function setWebhookCheckpoints(connection: ClientBase, checkpoint: Checkpoint): Promise<void> {
  await connection.query(
    `INSERT INTO webhooks.checkpoint (name, position, event_id, read_models)
     SELECT name, $1, $2, $3 FROM unnest(ARRAY['deliveries', 'messages']) AS n (name)
     ON CONFLICT (name) DO UPDATE SET position = $1, event_id = $2, read_models = $3, sequence = 0`,
    [checkpoint.position, checkpoint.eventId, READ_MODEL_SCHEMA],
  );
}

/**
 * Returns a checkpoint, and assigns it to the read models of this release. If it belonged to the read models of another
 * release, the public events that those read models lacked become late events.
 *
 * @throws {Error} if the read models were never filled, or the read models of this release have not reached the
 *   checkpoint
 */
export function takeOverCheckpoint(pool: Pool, name: WebhookCheckpointName): Promise<WebhookCheckpoint> {
  return inTransaction(pool, async (client) => {
    const { rowCount } = await client.query("SELECT FROM webhooks.checkpoint WHERE name = $1 FOR UPDATE", [name]);
    if (rowCount === 0) throw new Error("The read models are not filled yet.");
    const checkpoint = await readWebhookCheckpoint(client, name);
    if (checkpoint.readModels === READ_MODEL_SCHEMA) return checkpoint;
    const { position } = await readCheckpoint(client, READ_MODEL_SCHEMA);
    if (position < checkpoint.position)
      throw new Error("The read models of this release do not include all events that another release has processed.");
    await recordMissingEvents(client, checkpoint.readModels, { name, position: checkpoint.position });
    await client.query("UPDATE webhooks.checkpoint SET read_models = $2 WHERE name = $1", [name, READ_MODEL_SCHEMA]);
    return { ...checkpoint, readModels: READ_MODEL_SCHEMA };
  });
}

/** Returns the schemas of the read models to which the checkpoints belong, see {@link takeOverCheckpoint}. */
export async function listReferencedReadModels(db: Pool | ClientBase): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>("SELECT DISTINCT read_models AS name FROM webhooks.checkpoint");
  return rows.map(({ name }) => name);
}
