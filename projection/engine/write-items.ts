import pg from "pg";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";
import type { SubscriptionItem } from "../../shared/eventstore/subscription.ts";
import { isPostgresUnavailable } from "../../shared/postgres/unavailable.ts";
import { backoff } from "../../shared/runtime/backoff.ts";
import { type Anchor, readCheckpoint, type Standing } from "../checkpoints/checkpoint.ts";
import type { Gaps, PassedOver } from "../parking/passed-over.ts";
import { ProjectionFailure } from "../roles/failure.ts";
import { applyBatch } from "./apply-batch.ts";
import type { ProjectionOptions, Report } from "./projection-options.ts";

/** What a run writes by. */
export interface Writing {
  options: ProjectionOptions;
  /** Moves on with each commit. */
  standing: Standing;
  gaps: Gaps;
  report: Report;
  signal: AbortSignal;
}

/**
 * Writes what a subscription gave, as one batch. Where an event of it cannot be taken, what stands before that event
 * is written, and the failure names it. While the database is out of reach it waits.
 *
 * @throws {ProjectionFailure}
 * @throws {LostLeadership}
 */
export async function writeItems(writing: Writing, items: readonly SubscriptionItem[]): Promise<void> {
  const last = items.findLast(isPlaced);
  if (!last) return;
  const to = { position: last.position, eventId: last.kind === "event" ? last.event.id : last.id };
  const events = items.flatMap((item) => (item.kind === "event" ? [item.event] : []));
  try {
    await writeBatch(writing, events, passedOverIn(items, writing.gaps), to);
  } catch (error) {
    if (error instanceof ProjectionFailure && error.place) {
      const { position } = error.place;
      await writeItems(
        writing,
        items.filter((item) => isPlaced(item) && item.position < position),
      );
    }
    if (!isRefusedValue(error)) throw error;
    const [event] = events;
    if (event && events.length === 1) {
      const refused = `the database refuses a value of ${event.type} (SQLSTATE ${error.code})`;
      throw new ProjectionFailure(refused, event, error);
    }
    for (const single of singles(items)) await writeItems(writing, single);
  }
}

/** One transaction, tried until the database answers. A commit whose answer got lost is found out. */
async function writeBatch(
  { options, standing, report, signal }: Writing,
  events: readonly RecordedEvent[],
  passedOver: ReadonlyMap<string, PassedOver>,
  to: Anchor,
): Promise<void> {
  const { pool, schema, models, logger, lazyCommits = false } = options;
  const { position: from, tables } = standing;
  const wait = backoff({ first: 100, most: 3_000 });
  for (let retry = false; ; retry = true) {
    const started = performance.now();
    try {
      if (!retry || (await readCheckpoint(pool, schema)) !== to.position) {
        await withConnection(pool, (connection) =>
          applyBatch(connection, schema, models, events, from, to, { passedOver, tables, lazyCommits }),
        );
      }
      standing.position = to.position;
      report({ position: to.position, waitsFor: null }, events.length);
      options.onBatch?.(events.length, (performance.now() - started) / 1000);
      return;
    } catch (error) {
      if (!isPostgresUnavailable(error) || signal.aborted) throw error;
      logger.warn({ error }, "projection waits for the database");
      report({ waitsFor: "the database", trouble: error as Error });
      await wait.next(signal);
    }
  }
}

/** A connection that broke is not given back. */
async function withConnection(
  pool: pg.Pool,
  work: (connection: pg.PoolClient) => Promise<void>,
): Promise<void> {
  const connection = await pool.connect();
  let broken: Error | undefined;
  try {
    await work(connection);
  } catch (error) {
    broken = error as Error;
    throw error;
  } finally {
    connection.release(isPostgresUnavailable(broken) ? broken : undefined);
  }
}

type Placed = Extract<SubscriptionItem, { kind: "event" | "skipped" }>;

/**
 * Tells whether an item moves the checkpoint. Events of other programs do not: they may be deleted, and then they could
 * not identify the log.
 */
function isPlaced(item: SubscriptionItem): item is Placed {
  return item.kind === "event" || item.kind === "skipped";
}

function passedOverIn(items: readonly SubscriptionItem[], gaps: Gaps): Map<string, PassedOver> {
  const passed = new Map<string, PassedOver>();
  for (const item of items) {
    const gap = item.kind === "skipped" && gaps.get(item.stream);
    if (!gap) continue;
    const { revision, position } = gap;
    passed.set(item.stream, { revision, position, events: (passed.get(item.stream)?.events ?? 0n) + 1n });
  }
  return passed;
}

/** Cuts items so that each part has one event, its last; the last part may have none. */
function singles(items: readonly SubscriptionItem[]): SubscriptionItem[][] {
  const parts: SubscriptionItem[][] = [[]];
  for (const item of items) {
    parts.at(-1)?.push(item);
    if (item.kind === "event") parts.push([]);
  }
  return parts;
}

/** SQLSTATE classes 22 and 23: a value that a column cannot hold. */
function isRefusedValue(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError && /^2[23]/.test(error.code ?? "");
}
