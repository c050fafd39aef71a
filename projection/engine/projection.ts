import type { EventStoreDBClient } from "@eventstore/db-client";
import pg from "pg";
import { catchUp, type SubscriptionItem, UnreadableEvent } from "../../shared/eventstore/subscription.ts";
import { isPostgresUnavailable } from "../../shared/postgres/unavailable.ts";
import { backoff } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { AwaitedServer } from "../role.ts";
import { BoundedBuffer } from "./bounded-buffer.ts";
import { readStanding } from "./checkpoint.ts";
import { BEFORE_FIRST } from "./ddl.ts";
import { LostLeadership, ProjectionFailure } from "./failure.ts";
import { gapsOf, type Parked, readPassedOver } from "./passed-over.ts";
import type { AnyReadModel } from "./read-model.ts";
import { type Writing, writeItems } from "./write-items.ts";

/** How a run of the projection is doing. */
export interface ProjectionProgress {
  position: bigint;
  caughtUp: boolean;
  /** What it waits for; null while it works. */
  waitsFor: AwaitedServer | null;
  /** What made it wait, the last time that it had to. */
  trouble: Error | null;
  /** Events that it has taken since it started. */
  events: number;
}

export interface ProjectionOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  schema: string;
  models: readonly AnyReadModel[];
  logger: Logger;
  /** The last position to take; it goes on with what comes live where absent. */
  until?: bigint;
  /**
   * For tables that nobody reads yet: what a crash of the database's machine takes of the last commits is projected
   * again from the checkpoint that is left.
   */
  lazyCommits?: boolean;
  /** Asked at the start, and again when the log tells of a change. */
  parked(): Promise<Parked>;
  onProgress(progress: ProjectionProgress): void;
  /** Told of each commit: its events, and how long it took. */
  onBatch?(events: number, seconds: number): void;
  /** Told of each event of a type that the catalog does not know. It is passed over. */
  onUnknown?(type: string): void;
}

export type Report = (change: Partial<ProjectionProgress>, events?: number) => void;

/** Most events in one transaction, and most that wait while one is written: reading must never wait for writing. */
const BATCH = 2_000;
const AHEAD = 2 * BATCH;

/**
 * Keeps the read models of a schema up to date with the log until the signal aborts, or up to a position: one
 * subscription fills a buffer while the batch before is written, so that batches grow with the lag and live events are
 * not held back. A log or a database out of reach is waited for. Streams that are parked are passed over, on record.
 *
 * @throws {ProjectionFailure} for an event that cannot be taken, naming it: what stands before it is written, and
 *   nothing after it
 * @throws {LostLeadership} where another process moved the checkpoint, or a rebuild took the tables' place
 */
export async function runProjection(options: ProjectionOptions, signal: AbortSignal): Promise<void> {
  const progress: ProjectionProgress = {
    position: BEFORE_FIRST,
    caughtUp: false,
    waitsFor: null,
    trouble: null,
    events: 0,
  };
  const report: Report = (change, events = 0) =>
    options.onProgress(Object.assign(progress, change, { events: progress.events + events }));
  const wait = backoff({ first: 100, most: 3_000 });
  while (!signal.aborted) {
    const before = progress.position;
    try {
      await follow(options, progress, report, signal);
    } catch (error) {
      const trouble = error as Error;
      const waitsFor = whatToWaitFor(trouble);
      if (!signal.aborted) options.logger.warn({ error, waitsFor }, "projection waits");
      report({ waitsFor, trouble, caughtUp: false });
    }
    if (isDone(options, progress)) return;
    // Only a commit shows that it works again: a subscription may be opened in vain again and again.
    if (progress.position > before) wait.reset();
    await wait.next(signal);
  }
}

/** @throws what waiting does not mend */
function whatToWaitFor(error: Error): AwaitedServer {
  if (error instanceof UnreadableEvent) throw new ProjectionFailure(error.reason, error.place, error);
  if (error instanceof ProjectionFailure || error instanceof LostLeadership) throw error;
  if (isPostgresUnavailable(error)) return "the database";
  if (error instanceof pg.DatabaseError) {
    throw new ProjectionFailure(`the database refuses (SQLSTATE ${error.code})`, undefined, error);
  }
  return "the event log";
}

function isDone({ until }: ProjectionOptions, { position }: ProjectionProgress): boolean {
  return until !== undefined && position >= until;
}

/** One subscription's life, from the checkpoint on. It ends, too, when an operator parks or resumes a stream. */
async function follow(
  options: ProjectionOptions,
  progress: ProjectionProgress,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  const standing = await readStanding(options.pool, options.schema);
  report({ position: standing.position });
  if (isDone(options, progress) || signal.aborted) return;
  const parked = await options.parked();
  const passed = await readPassedOver(options.pool, options.schema);
  const gaps = gapsOf(parked, passed, standing.position);
  const buffer = new BoundedBuffer<SubscriptionItem>(AHEAD);
  const life = new AbortController();
  const end = () => {
    life.abort();
    buffer.close();
  };
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  try {
    const writing = { options, standing, gaps, report, signal };
    const filled = fill(buffer, writing, life.signal).finally(() => buffer.close());
    const written = write(buffer, writing, parked.upTo, progress).finally(end);
    const [filling, writingDown] = await Promise.allSettled([filled, written]);
    // The writer's trouble first: it is the one that may be final.
    if (writingDown.status === "rejected") throw writingDown.reason;
    if (filling.status === "rejected") throw filling.reason;
  } finally {
    signal.removeEventListener("abort", end);
  }
}

async function fill(
  buffer: BoundedBuffer<SubscriptionItem>,
  { options: { client, until }, standing: { position }, gaps }: Writing,
  signal: AbortSignal,
): Promise<void> {
  const after = position === BEFORE_FIRST ? undefined : position;
  const passesOver = (stream: string, revision: bigint) => {
    const gap = gaps.get(stream);
    return gap !== undefined && revision >= gap.revision;
  };
  const isBeyond = (position: bigint) => until !== undefined && position > until;
  try {
    for await (const item of catchUp({ client, after, passesOver, signal })) {
      if ("position" in item && isBeyond(item.position)) return;
      const room = buffer.push(item);
      if (room) await room;
    }
  } catch (error) {
    // Nobody asked for it.
    if (!(error instanceof UnreadableEvent && isBeyond(error.place.position))) throw error;
  }
}

/** @param knownActs the revision of the last act of parking or resuming that the run goes by */
async function write(
  buffer: BoundedBuffer<SubscriptionItem>,
  writing: Writing,
  knownActs: bigint,
  progress: ProjectionProgress,
): Promise<void> {
  const { options, report } = writing;
  for (;;) {
    const items = await buffer.take(BATCH);
    if (items.length === 0) return;
    await writeItems(writing, items);
    if (items.some((item) => item.kind === "caughtUp")) report({ caughtUp: true });
    report({ waitsFor: null });
    if (isDone(options, progress) || items.some((item) => isActAfter(item, knownActs))) return;
  }
}

function isActAfter(item: SubscriptionItem, known: bigint): boolean {
  if (item.kind !== "event") return false;
  const { type, revision } = item.event;
  return (type === "StreamParked" || type === "StreamResumed") && revision > known;
}
