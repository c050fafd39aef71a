import type { ClientBase } from "pg";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";
import { type Anchor, CHECKPOINT } from "../checkpoints/checkpoint.ts";
import { addSkipped, type SkippedEvents } from "../parking/skipped-events.ts";
import { LeadershipLostError, ProjectionError } from "../roles/failure.ts";
import { shapeOf } from "./ddl.ts";
import type { AnyReadModel, Row } from "./read-model.ts";
import { deleteRows, loadRows, upsertRows } from "./rows.ts";
import { loadGenerations, partsOf, wipeSandbox } from "./sandbox-resets.ts";

/** Options of a batch. */
export interface BatchDetails {
  /** Skipped events, by stream. */
  skipped?: ReadonlyMap<string, SkippedEvents>;
  /** Expected tables, see {@link ReadModelCheckpoint}. If absent, any tables are accepted. */
  tables?: string;
  /** If true, the commit may be acknowledged before it is flushed to disk. */
  lazyCommits?: boolean;
}

/**
 * Applies a batch of events to the read models. Loads the affected rows, folds the events, writes the changed rows in bulk
 * and moves the checkpoint, all in one transaction. The checkpoint moves by compare-and-set of its position and of the
 * table fingerprint. So only one of several processes can write, and only if its release built the tables.
 *
 * @param from current position of the checkpoint
 * @param to last event of the batch, relevant or not
 * @throws {LeadershipLostError} if the checkpoint is not at `from`, or a rebuild or another release replaced the tables
 * @throws {ProjectionError} with stream, revision and position of the event, if a projector throws
 */
export async function applyBatch(
  client: ClientBase,
  schema: string,
  models: readonly AnyReadModel[],
  events: readonly RecordedEvent[],
  from: bigint,
  to: Anchor,
  { skipped, tables, lazyCommits }: BatchDetails = {},
): Promise<void> {
  try {
    // The lock keeps a rebuild from swapping schemas during the transaction. One round trip for all three commands.
    await client.query(`BEGIN;${lazyCommits ? "SET LOCAL synchronous_commit = off;" : ""}
      SELECT pg_advisory_xact_lock_shared(hashtextextended('${swapLock(schema)}', 0))`);
    for (const { wipe, events: part } of partsOf(events, await loadGenerations(client, schema, events))) {
      if (wipe !== null) await wipeSandbox(client, schema, models, wipe);
      for (const model of models) {
        const relevant = part.filter((event) => model.on[event.type]);
        if (relevant.length > 0) await project(client, schema, model, relevant);
      }
    }
    if (skipped) await addSkipped(client, schema, skipped);
    const moved = await client.query({
      name: `checkpoint ${schema}`,
      text: `UPDATE ${schema}.checkpoint SET position = $1, anchor_position = $1, anchor_event_id = $2
              WHERE name = $3 AND position = $4 AND shape = $5 AND ($6::oid IS NULL OR tableoid = $6)`,
      values: [to.position, to.eventId, CHECKPOINT, from, shapeOf(models), tables],
    });
    if (moved.rowCount !== 1) {
      throw new LeadershipLostError(
        `The checkpoint of schema ${schema} is no longer at position ${from}, or belongs to another release.`,
      );
    }
    await client.query("COMMIT");
  } catch (error) {
    // On a broken connection this fails, and the server rolls back by itself. The first error is the relevant one.
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/** Returns the name of the lock that writers to a schema share and that a swap of the schema takes exclusively. */
export function swapLock(schema: string): string {
  return `swap ${schema}`;
}

interface Touched {
  key: readonly string[];
  before: Row | undefined;
  after: Row | undefined;
}

async function project(
  client: ClientBase,
  schema: string,
  model: AnyReadModel,
  events: readonly RecordedEvent[],
): Promise<void> {
  const keyed = events.map((event) => ({ event, key: keyOf(model, event) }));
  const touched = new Map<string, Touched>();
  for (const { key } of keyed) touched.set(key.join("\n"), { key, before: undefined, after: undefined });
  const rows = await loadRows(
    client,
    schema,
    model,
    [...touched.values()].map(({ key }) => key),
  );
  for (const row of rows) {
    const entry = touched.get(model.primaryKey.map((column) => row[column]).join("\n"));
    if (entry) entry.before = entry.after = row;
  }
  for (const { event, key } of keyed) {
    const entry = touched.get(key.join("\n"));
    if (entry) entry.after = evolve(model, entry.after, event);
  }
  const all = [...touched.values()];
  await upsertRows(
    client,
    schema,
    model,
    all.flatMap(({ before, after }) => (after && after !== before ? [after] : [])),
  );
  await deleteRows(
    client,
    schema,
    model,
    all.flatMap(({ key, before, after }) => (before && !after ? [key] : [])),
  );
}

function keyOf(model: AnyReadModel, event: RecordedEvent): readonly string[] {
  return guarded(model, event, () => model.key(event));
}

function evolve(model: AnyReadModel, row: Row | undefined, event: RecordedEvent): Row | undefined {
  return guarded(model, event, () => model.on[event.type]?.(row, event));
}

function guarded<T>(model: AnyReadModel, event: RecordedEvent, act: () => T): T {
  try {
    return act();
  } catch (cause) {
    const reason = `read model ${model.table} cannot process ${event.type}: ${(cause as Error).message}`;
    throw new ProjectionError(reason, event, cause);
  }
}
