import type { EventStoreDBClient } from "@eventstore/db-client";
import pg from "pg";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";
import { catchUp, type SubscriptionItem, UnreadableEvent } from "../../shared/eventstore/subscription.ts";
import { isPostgresUnavailable } from "../../shared/postgres/unavailable.ts";
import { backoff } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { applyBatch, LostLeadership, ProjectionFailure } from "./apply-batch.ts";
import { BoundedBuffer } from "./bounded-buffer.ts";
import { BEFORE_FIRST, CHECKPOINT } from "./ddl.ts";
import type { AnyReadModel } from "./read-model.ts";

/** How a run of the projection is doing. */
export interface ProjectionProgress {
  position: bigint;
  caughtUp: boolean;
  /** What it waits for; null while it works. */
  waitsFor: string | null;
  /** Events of types that the catalog does not know, passed over. */
  unknownEvents: number;
}

export interface ProjectionOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  schema: string;
  models: readonly AnyReadModel[];
  logger: Logger;
  /** The last position to take; it goes on with what comes live where absent. */
  until?: bigint;
  onProgress(progress: ProjectionProgress): void;
}

/** Most events in one transaction, and most that wait while one is written. */
const BATCH = 2_000;

/**
 * Keeps the read models of a schema up to date with the log until the signal aborts, or up to a position: one subscription fills a
 * buffer while the batch before is written, so that batches grow with the lag and live events are not held back.
 * A log or a database out of reach is waited for.
 *
 * @throws {ProjectionFailure} for an event that cannot be taken, naming it; nothing after it is written
 * @throws {LostLeadership} where another process moved the checkpoint
 */
export async function runProjection(options: ProjectionOptions, signal: AbortSignal): Promise<void> {
  const progress: ProjectionProgress = {
    position: BEFORE_FIRST,
    caughtUp: false,
    waitsFor: null,
    unknownEvents: 0,
  };
  const report = (change: Partial<ProjectionProgress>) => options.onProgress(Object.assign(progress, change));
  const wait = backoff({ first: 100, most: 3_000 });
  while (!signal.aborted) {
    try {
      report({ position: await readCheckpoint(options.pool, options.schema) });
      if (isDone(options, progress)) return;
      await follow(options, progress, report, wait.reset, signal);
    } catch (error) {
      if (error instanceof UnreadableEvent) throw new ProjectionFailure(error.message, { cause: error });
      if (error instanceof ProjectionFailure || error instanceof LostLeadership) throw error;
      const waitsFor = isPostgresUnavailable(error) ? "the database" : "the event log";
      if (error instanceof pg.DatabaseError && waitsFor === "the event log") {
        throw new ProjectionFailure(`the database refuses (SQLSTATE ${error.code})`, { cause: error });
      }
      if (!signal.aborted) options.logger.warn({ error, waitsFor }, "projection waits");
      report({ waitsFor, caughtUp: false });
    }
    if (isDone(options, progress)) return;
    await wait.next(signal);
  }
}

function isDone({ until }: ProjectionOptions, { position }: ProjectionProgress): boolean {
  return until !== undefined && position >= until;
}

type Report = (change: Partial<ProjectionProgress>) => void;

/** One subscription's life, from the checkpoint on. */
async function follow(
  options: ProjectionOptions,
  progress: ProjectionProgress,
  report: Report,
  works: () => void,
  signal: AbortSignal,
): Promise<void> {
  const buffer = new BoundedBuffer<SubscriptionItem>(BATCH);
  const life = new AbortController();
  const end = () => {
    life.abort();
    buffer.close();
  };
  if (signal.aborted) return;
  signal.addEventListener("abort", end, { once: true });
  try {
    const filling = fill(buffer, options, progress.position, life.signal).finally(() => buffer.close());
    const writing = write(buffer, options, progress, report, works, signal).finally(end);
    const [filled, written] = await Promise.allSettled([filling, writing]);
    // The writer's trouble first: it is the one that may be final.
    if (written.status === "rejected") throw written.reason;
    if (filled.status === "rejected") throw filled.reason;
  } finally {
    signal.removeEventListener("abort", end);
  }
}

async function fill(
  buffer: BoundedBuffer<SubscriptionItem>,
  { client, until }: ProjectionOptions,
  position: bigint,
  signal: AbortSignal,
): Promise<void> {
  const after = position === BEFORE_FIRST ? undefined : position;
  for await (const item of catchUp({ client, after, signal })) {
    if (until !== undefined && "position" in item && item.position > until) return;
    await buffer.push(item);
  }
}

async function write(
  buffer: BoundedBuffer<SubscriptionItem>,
  options: ProjectionOptions,
  progress: ProjectionProgress,
  report: Report,
  works: () => void,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const items = await buffer.take(BATCH);
    if (items.length === 0) return;
    const unknown = items.filter((item) => item.kind === "unknown");
    const events = items.flatMap((item) => (item.kind === "event" ? [item.event] : []));
    const to = items.findLast((item) => item.kind === "event" || item.kind === "unknown")?.position;
    if (to !== undefined) await writeBatch(options, events, progress.position, to, report, signal);
    works();
    report({
      position: to ?? progress.position,
      caughtUp: progress.caughtUp || items.some((item) => item.kind === "caughtUp"),
      waitsFor: null,
      unknownEvents: progress.unknownEvents + unknown.length,
    });
    for (const { type, position } of unknown) {
      options.logger.warn({ type, position: String(position) }, "passed over an event of unknown type");
    }
    if (isDone(options, progress)) return;
  }
}

/** Writes a batch; while the database is out of reach it waits. A commit whose answer got lost is found out. */
async function writeBatch(
  options: ProjectionOptions,
  events: readonly RecordedEvent[],
  from: bigint,
  to: bigint,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  const { pool, schema, models } = options;
  const wait = backoff({ first: 100, most: 3_000 });
  for (let retry = false; ; retry = true) {
    try {
      if (retry && (await readCheckpoint(pool, schema)) === to) return;
      const connection = await pool.connect();
      let broken: Error | undefined;
      try {
        return await applyBatch(connection, schema, models, events, from, to);
      } catch (error) {
        broken = error as Error;
        throw error;
      } finally {
        connection.release(isPostgresUnavailable(broken) ? broken : undefined);
      }
    } catch (error) {
      if (isRefusedValue(error)) return await writeOneByOne(options, events, from, to, report, signal, error);
      if (!isPostgresUnavailable(error) || signal.aborted) throw error;
      options.logger.warn({ error }, "projection waits for the database");
      report({ waitsFor: "the database" });
      await wait.next(signal);
    }
  }
}

/** SQLSTATE classes 22 and 23: a value that a column cannot hold. */
function isRefusedValue(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError && /^2[23]/.test(error.code ?? "");
}

/** Takes the events before the one that the database refuses, and stops there, naming it. */
async function writeOneByOne(
  options: ProjectionOptions,
  events: readonly RecordedEvent[],
  from: bigint,
  to: bigint,
  report: Report,
  signal: AbortSignal,
  cause: pg.DatabaseError,
): Promise<void> {
  const [event] = events;
  if (event && events.length === 1) {
    const place = `position ${event.position}, stream ${event.stream}, revision ${event.revision}`;
    const refused = `the database refuses a value of ${event.type} (SQLSTATE ${cause.code})`;
    throw new ProjectionFailure(`${place}: ${refused}`, { cause });
  }
  let at = from;
  for (const event of events) {
    await writeBatch(options, [event], at, event.position, report, signal);
    at = event.position;
    report({ position: at });
  }
  if (to > at) await writeBatch(options, [], at, to, report, signal);
}

/** The log position that the read models of a schema reflect. */
export async function readCheckpoint(db: pg.Pool | pg.ClientBase, schema: string): Promise<bigint> {
  const { rows } = await db.query<{ position: bigint }>(
    `SELECT position FROM ${schema}.checkpoint WHERE name = $1`,
    [CHECKPOINT],
  );
  if (!rows[0]) throw new Error(`schema ${schema} has no checkpoint`);
  return rows[0].position;
}
