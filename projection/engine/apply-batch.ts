import type { ClientBase } from "pg";
import { toStreamName } from "../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import { awaitPipelined } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { CHECKPOINT_NAME, type EventCheckpoint } from "../checkpoints/checkpoint.ts";
import { findPublicEvents, recordLateEvents } from "../checkpoints/late-events.ts";
import {
  deleteQuarantinedStream,
  type QuarantinedStream,
  recordSkippedEvents,
} from "../quarantine/quarantined-streams.ts";
import { LeadershipLostError } from "../roles/role.ts";
import { deleteSandboxRows, loadGenerations, loadResetPositions, splitBatch } from "./batch-segments.ts";
import { eraseCustomerRows, eraseLateData } from "./customer-erasures.ts";
import { computeFingerprint } from "./ddl.ts";
import { type ChangesByModel, foldEvents, writeChanges } from "./fold-events.ts";
import { type Outcomes, writeOutcomes } from "./fuse.ts";
import type { AnyReadModel } from "./read-model.ts";

interface BatchOptions {
  /** The events with their decrypted personal data. If absent, the events contain no encrypted data. */
  decryptedEventsPromise?: Promise<readonly RecordedEvent[]>;
  skippedEvents?: ReadonlyMap<string, QuarantinedStream>;
  changedOutcomes?: Outcomes;
  /** Quarantined stream whose skipped events the batch contains. The batch ends the quarantine. */
  replayedStream?: string;
  /** Expected object id of the checkpoint table. If absent, the id is not checked. */
  tableOid?: string;
  /** If true, Postgres may acknowledge the commit before the commit is flushed to disk. */
  commitsAsynchronously?: boolean;
}

const NO_RESETS: ReadonlyMap<string, bigint> = new Map();

/**
 * Applies a batch of events to the read models. Loads the affected rows, folds the events, writes the changed rows in
 * bulk and moves the checkpoint, all in one transaction. The checkpoint moves only if its position and the table
 * fingerprint are as expected. Therefore only one process can write at a time, and only if its release built the
 * tables.
 *
 * @param fromPosition current position of the checkpoint
 * @param newCheckpoint checkpoint at the last event of the batch, even if no read model handles that event
 * @throws {LeadershipLostError} if the checkpoint is not at `fromPosition`, or a rebuild or another release replaced
 *   the tables
 * @throws {ProjectionError} with stream, revision and position of the event, if a projector throws
 */
export async function applyBatch(
  client: ClientBase,
  schema: string,
  models: readonly AnyReadModel[],
  storedEvents: readonly RecordedEvent[],
  fromPosition: bigint,
  newCheckpoint: EventCheckpoint,
  {
    decryptedEventsPromise,
    skippedEvents,
    changedOutcomes,
    replayedStream,
    tableOid,
    commitsAsynchronously,
  }: BatchOptions = {},
): Promise<void> {
  try {
    // The lock prevents a rebuild from swapping schemas during the transaction. A statement that waits for a lock fails
    // before its time limit, so that a statement timeout means that the statement itself is slow.
    const beginPromise = client.query(`BEGIN;${commitsAsynchronously ? "SET LOCAL synchronous_commit = off;" : ""}
      SELECT set_config('lock_timeout', (extract(epoch FROM current_setting('statement_timeout')::interval) * 800)::text, true);
      SELECT pg_advisory_xact_lock_shared(hashtextextended('${getSwapLockName(schema)}', 0))`);
    const [batchEvents, generations, resetPositions] = await awaitPipelined([
      decryptedEventsPromise ?? storedEvents,
      loadGenerations(client, schema, storedEvents),
      replayedStream === undefined ? NO_RESETS : loadResetPositions(client, schema, storedEvents),
      beginPromise,
    ]);
    const replayedIds = replayedStream === undefined ? [] : storedEvents.map(({ id }) => id);
    const hasPublicEvents = models.some(({ table }) => table === "public_event") && schema === READ_MODEL_SCHEMA;
    const knownIds =
      replayedIds.length > 0 && hasPublicEvents ? await findPublicEvents(client, replayedIds) : undefined;
    let changes: ChangesByModel = new Map();
    for (const { sandboxToClear, customerErasures, events } of splitBatch(batchEvents, generations)) {
      await writeChanges(client, schema, changes);
      if (sandboxToClear !== null) await deleteSandboxRows(client, schema, models, sandboxToClear);
      if (customerErasures.length > 0) await eraseCustomerRows(client, schema, models, customerErasures);
      changes = await foldEvents(client, schema, groupByModel(models, events, resetPositions));
      await eraseLateData(client, schema, changes);
    }
    await awaitPipelined([
      writeChanges(client, schema, changes),
      skippedEvents && recordSkippedEvents(client, schema, skippedEvents),
      skippedEvents && deleteRevocableRows(client, schema, models, [...skippedEvents.keys()]),
      changedOutcomes && writeOutcomes(client, schema, changedOutcomes),
      replayedStream !== undefined && deleteQuarantinedStream(client, schema, replayedStream),
      moveCheckpoint(client, schema, models, { fromPosition, newCheckpoint, tableOid }),
    ]);
    if (knownIds) await recordLateEvents(client, replayedIds, knownIds);
    await client.query("COMMIT");
  } catch (error) {
    // On a broken connection, the rollback fails, but the server rolls back anyway. Only the original error matters.
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/** Deletes the rows that skipped events may have revoked. */
async function deleteRevocableRows(
  client: ClientBase,
  schema: string,
  models: readonly AnyReadModel[],
  streams: readonly string[],
): Promise<void> {
  for (const { table, primaryKey, revokingStreams, revokingColumn = primaryKey.join() } of models) {
    if (!revokingStreams) continue;
    const names = streams.filter((stream) => stream.startsWith(toStreamName(revokingStreams, "")));
    if (names.length === 0) continue;
    await client.query(`DELETE FROM ${schema}.${table} WHERE $1::text || ${revokingColumn}::text = ANY ($2::text[])`, [
      toStreamName(revokingStreams, ""),
      names,
    ]);
  }
}

/** When the transaction commits, Postgres notifies the processes that wait for the position. */
async function moveCheckpoint(
  client: ClientBase,
  schema: string,
  models: readonly AnyReadModel[],
  {
    fromPosition,
    newCheckpoint,
    tableOid,
  }: { fromPosition: bigint; newCheckpoint: EventCheckpoint; tableOid: string | undefined },
): Promise<void> {
  const fingerprint = computeFingerprint(models);
  const { rowCount } = await client.query({
    name: `checkpoint ${schema}`,
    text: `UPDATE ${schema}.checkpoint SET position = $1, event_id = $2
            WHERE name = $3 AND position = $4 AND fingerprint = $5 AND ($6::oid IS NULL OR tableoid = $6)
            RETURNING pg_notify($7, position::text)`,
    values: [
      newCheckpoint.position,
      newCheckpoint.eventId,
      CHECKPOINT_NAME,
      fromPosition,
      fingerprint,
      tableOid,
      schema,
    ],
  });
  if (rowCount === 1) return;
  throw new LeadershipLostError(
    `The checkpoint of schema ${schema} is no longer at position ${fromPosition}, or belongs to another release.`,
  );
}

/**
 * Returns the name of a schema's advisory lock. Writers take the lock in shared mode, and a swap takes it in exclusive
 * mode.
 */
export function getSwapLockName(schema: string): string {
  return `swap ${schema}`;
}

function groupByModel(
  models: readonly AnyReadModel[],
  events: readonly RecordedEvent[],
  resetPositions: ReadonlyMap<string, bigint>,
): Map<AnyReadModel, RecordedEvent[]> {
  const eventsByModel = new Map<AnyReadModel, RecordedEvent[]>(models.map((model) => [model, []]));
  const modelsByType = new Map<string, AnyReadModel[]>();
  for (const event of events) {
    const { type } = event;
    const handlingModels = modelsByType.get(type) ?? models.filter((model) => model.on[type]);
    modelsByType.set(type, handlingModels);
    const resetPosition = resetPositions.get(event.metadata.clinicId ?? "") ?? BEFORE_FIRST_EVENT;
    for (const model of handlingModels) {
      // In the order of the log, the reset has deleted the row that the event changed.
      if (model.sandboxCondition && event.position < resetPosition) continue;
      eventsByModel.get(model)?.push(event);
    }
  }
  return new Map([...eventsByModel].filter(([, handledEvents]) => handledEvents.length > 0));
}
