import { toStreamName } from "../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { awaitPipelined } from "../../shared/postgres/pool.ts";
import type { EventCheckpoint } from "../checkpoints/checkpoint.ts";
import { type QuarantinedStream, recordSkippedEvents } from "../quarantine/quarantined-streams.ts";
import { LeadershipLostError } from "../roles/role.ts";
import { deleteSandboxRows, loadGenerations, splitBatch } from "./batch-segments.ts";
import { eraseCustomerRows, eraseLateData } from "./customer-erasures.ts";
import { computeFingerprint } from "./ddl.ts";
import { type ChangesByModel, foldEvents, writeChanges } from "./fold-events.ts";
import { type Outcomes, writeOutcomes } from "./fuse.ts";
import type { AnyReadModel } from "./read-model.ts";
import type { Tables } from "./rows.ts";

export interface Batch {
  events: readonly RecordedEvent[];
  /** The events with their decrypted personal data. If absent, the events contain no encrypted data. */
  decryptedEventsPromise?: Promise<readonly RecordedEvent[]>;
  /** Expected current position of the checkpoint. */
  fromPosition: bigint;
  /** Checkpoint at the last event of the batch, even if no read model handles that event. */
  newCheckpoint: EventCheckpoint;
  skippedEvents?: ReadonlyMap<string, QuarantinedStream>;
  changedOutcomes?: Outcomes;
  /** Expected object id of the checkpoint table. If absent, the id is not checked. */
  tableOid?: string;
  /** If true, Postgres may acknowledge the commit before the commit is flushed to disk. */
  commitsAsynchronously?: boolean;
}

/**
 * Applies a batch of events to the read models. Loads the affected rows, folds the events, writes the changed rows in
 * bulk and moves the checkpoint, all in one transaction. The checkpoint moves only if its position and the table
 * fingerprint are as expected. Therefore only one process can write at a time, and only if its release built the
 * tables.
 *
 * @throws {LeadershipLostError} if the checkpoint is not at `fromPosition`, or a rebuild or another release replaced
 *   the tables
 * @throws {ProjectionError} with stream, revision and position of the event, if a projector throws
 */
export async function applyBatch(tables: Tables, batch: Batch): Promise<void> {
  const { client, schema, models } = tables;
  const { events: storedEvents, decryptedEventsPromise, skippedEvents, changedOutcomes } = batch;
  try {
    // The lock prevents a rebuild from swapping schemas during the transaction. A statement that waits for a lock fails
    // before its time limit, so that a statement timeout means that the statement itself is slow.
    const beginPromise = client.query(`BEGIN;${batch.commitsAsynchronously ? "SET LOCAL synchronous_commit = off;" : ""}
      SELECT set_config('lock_timeout', (extract(epoch FROM current_setting('statement_timeout')::interval) * 800)::text, true);
      SELECT pg_advisory_xact_lock_shared(hashtextextended('${getSwapLockName(schema)}', 0))`);
    const [batchEvents, generations] = await awaitPipelined([
      decryptedEventsPromise ?? storedEvents,
      loadGenerations(tables, storedEvents),
      beginPromise,
    ]);
    let changes: ChangesByModel = new Map();
    for (const { sandboxToClear, customerErasures, events } of splitBatch(batchEvents, generations)) {
      await writeChanges(tables, changes);
      if (sandboxToClear !== null) await deleteSandboxRows(tables, sandboxToClear);
      if (customerErasures.length > 0) await eraseCustomerRows(tables, customerErasures);
      changes = await foldEvents(tables, groupByModel(models, events));
      await eraseLateData(tables, changes);
    }
    await awaitPipelined([
      writeChanges(tables, changes),
      skippedEvents && recordSkippedEvents(tables, skippedEvents),
      skippedEvents && deleteRevocableRows(tables, [...skippedEvents.keys()]),
      changedOutcomes && writeOutcomes(tables, changedOutcomes),
      moveCheckpoint(tables, batch),
    ]);
    await client.query("COMMIT");
  } catch (error) {
    // On a broken connection, the rollback fails, but the server rolls back anyway. Only the original error matters.
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/** Deletes rows that grant access, if skipped events of the streams may have revoked this access. */
async function deleteRevocableRows({ client, schema, models }: Tables, streams: readonly string[]): Promise<void> {
  for (const { table, primaryKey, revokingStreams, revokingColumn = primaryKey.join() } of models) {
    if (!revokingStreams) continue;
    const prefix = toStreamName(revokingStreams, "");
    const names = streams.filter((stream) => stream.startsWith(prefix));
    if (names.length === 0) continue;
    const condition = `$1::text || ${revokingColumn}::text = ANY ($2::text[])`;
    await client.query(`DELETE FROM ${schema}.${table} WHERE ${condition}`, [prefix, names]);
  }
}

/** When the transaction commits, Postgres notifies the processes that wait for the position. */
async function moveCheckpoint(
  { client, schema, models }: Tables,
  { fromPosition, newCheckpoint: { position, eventId }, tableOid }: Batch,
): Promise<void> {
  const { rowCount } = await client.query({
    name: `checkpoint ${schema}`,
    text: `UPDATE ${schema}.checkpoint SET position = $1, event_id = $2
            WHERE position = $3 AND fingerprint = $4 AND ($5::oid IS NULL OR tableoid = $5)
            RETURNING pg_notify($6, position::text)`,
    values: [position, eventId, fromPosition, computeFingerprint(models), tableOid, schema],
  });
  if (rowCount === 1) return;
  throw new LeadershipLostError(
    `The checkpoint of schema ${schema} is no longer at position ${fromPosition}, or belongs to another release.`,
  );
}

/**
 * Returns the name of a schema's advisory lock. Each batch takes it in shared mode. A rebuild takes it in exclusive
 * mode when it replaces the tables.
 */
export function getSwapLockName(schema: string): string {
  return `swap ${schema}`;
}

function groupByModel(
  models: readonly AnyReadModel[],
  events: readonly RecordedEvent[],
): Map<AnyReadModel, RecordedEvent[]> {
  const eventsByModel = new Map<AnyReadModel, RecordedEvent[]>(models.map((model) => [model, []]));
  const modelsByType = new Map<string, AnyReadModel[]>();
  for (const event of events) {
    const { type } = event;
    const handlingModels = modelsByType.get(type) ?? models.filter((model) => model.on[type]);
    modelsByType.set(type, handlingModels);
    for (const model of handlingModels) eventsByModel.get(model)?.push(event);
  }
  return new Map([...eventsByModel].filter(([, handledEvents]) => handledEvents.length > 0));
}
