import type { ClientBase } from "pg";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";
import { type Anchor, CHECKPOINT } from "../checkpoints/checkpoint.ts";
import { addSkipped, type SkippedEvents } from "../parking/skipped-events.ts";
import { LostLeadership, ProjectionFailure } from "../roles/failure.ts";
import { shapeOf } from "./ddl.ts";
import type { AnyReadModel, Row } from "./read-model.ts";
import { deleteRows, loadRows, upsertRows } from "./rows.ts";
import { loadGenerations, partsOf, wipeSandbox } from "./sandbox-resets.ts";

/** What a batch may say beside its events. */
export interface BatchDetails {
  /** What it leaves out, by stream. */
  skipped?: ReadonlyMap<string, SkippedEvents>;
  /** The tables that it is meant for, as `readStanding` names them; whichever the schema has where absent. */
  tables?: string;
  /** Whether the commit need not have reached the disk when it is answered. */
  lazyCommits?: boolean;
}

/**
 * Takes a batch of events into the read models: loads the rows that they touch, folds, writes the changed rows in
 * bulk and moves the checkpoint, all in one transaction. The checkpoint moves by compare-and-set of its position and
 * of the tables' fingerprint. So of two processes that try only one can write, and only if its release built the tables.
 *
 * @param from where the checkpoint stands
 * @param to where it is to stand: the last event of the batch, relevant or not
 * @throws {LostLeadership} if the checkpoint is not at `from`, or another rebuild or release has replaced the tables
 * @throws {ProjectionFailure} naming event, stream, revision and position, where a projector throws
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
    // While a rebuild swaps schemas nobody writes: what a transaction names must not change under it. In one round trip.
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
      throw new LostLeadership(
        `the checkpoint of ${schema} is no longer at ${from}, or belongs to another release`,
      );
    }
    await client.query("COMMIT");
  } catch (error) {
    // A connection that broke has rolled back by itself; the first error is the one that counts.
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/** The name of the lock that a swap of a schema takes alone, and writers into it share. */
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
    const reason = `read model ${model.table} cannot take ${event.type}: ${(cause as Error).message}`;
    throw new ProjectionFailure(reason, event, cause);
  }
}
