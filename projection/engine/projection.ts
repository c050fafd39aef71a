import pg from "pg";
import { EventSchemaError } from "../../shared/domain/events/stored-event.ts";
import { catchUp, type SubscriptionItem, UnreadableEvent } from "../../shared/eventstore/subscription.ts";
import { isPostgresUnavailable } from "../../shared/postgres/unavailable.ts";
import { backoff } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import { BEFORE_FIRST, readStanding, type Standing } from "../checkpoints/checkpoint.ts";
import { DifferentLog, requireAnchored, requireSameLog } from "../checkpoints/same-log.ts";
import { gapsOf, readPassedOver } from "../parking/passed-over.ts";
import { LostLeadership, OTHER_RELEASE, ProjectionFailure } from "../roles/failure.ts";
import type { AwaitedServer } from "../roles/role.ts";
import { shapeOf } from "./ddl.ts";
import type { ProjectionOptions, ProjectionProgress, Report } from "./projection-options.ts";
import { type Writing, writeItems } from "./write-items.ts";

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
 * @throws {LostLeadership} if another process moved the checkpoint, or a rebuild or another release replaced the tables
 * @throws {DifferentLog} if the log is not the one behind the checkpoint; nothing is written from then on
 */
export async function runProjection(options: ProjectionOptions, signal: AbortSignal): Promise<void> {
  const progress: ProjectionProgress = {
    position: BEFORE_FIRST,
    seen: BEFORE_FIRST,
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
  if (error instanceof EventSchemaError) throw new ProjectionFailure(error.message, undefined, error);
  if ([ProjectionFailure, LostLeadership, DifferentLog].some((final) => error instanceof final)) throw error;
  if (isPostgresUnavailable(error)) return "the database";
  if (error instanceof pg.DatabaseError) {
    throw new ProjectionFailure(`the database refuses (SQLSTATE ${error.code})`, undefined, error);
  }
  return "the event log";
}

function isDone({ until }: ProjectionOptions, { seen }: ProjectionProgress): boolean {
  return until !== undefined && seen >= until;
}

/** @throws {DifferentLog} */
async function requireLog(options: ProjectionOptions, standing: Standing): Promise<void> {
  if (!options.adopting) await requireSameLog(options);
  await requireAnchored(options.client, `schema ${options.schema}`, standing);
}

/** One subscription's life, from the checkpoint on. It ends, too, when an operator parks or resumes a stream. */
async function follow(
  options: ProjectionOptions,
  progress: ProjectionProgress,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  const standing = await readStanding(options.pool, options.schema);
  if (standing.shape !== shapeOf(options.models)) throw new LostLeadership(OTHER_RELEASE);
  report({ position: standing.position, seen: standing.position });
  if (signal.aborted) return;
  await requireLog(options, standing);
  if (isDone(options, progress)) return;
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
  { options, standing, gaps }: Writing,
  signal: AbortSignal,
): Promise<void> {
  const { client, until } = options;
  // The writer moves it on.
  const start = { ...standing };
  const after = start.position === BEFORE_FIRST ? undefined : start.position;
  const isSkipped = (stream: string, revision: bigint) => {
    const gap = gaps.get(stream);
    return gap !== undefined && revision >= gap.revision;
  };
  let confirmed = false;
  try {
    for await (const item of catchUp({ client, after, isSkipped, signal })) {
      // The log may have been exchanged between the first check and the subscription.
      if (!confirmed) await requireLog(options, start);
      confirmed = true;
      if (until !== undefined && (item.kind === "caughtUp" || item.position > until)) break;
      const room = buffer.push(item);
      if (room) await room;
    }
  } catch (error) {
    const beyond = error instanceof UnreadableEvent && until !== undefined && error.place.position > until;
    // An event after `until` is of no interest.
    if (!beyond) throw error;
  }
  // All that is stored up to there was given: the last event there may be another program's, and deleted.
  if (until !== undefined && !signal.aborted) await buffer.push({ kind: "foreign", position: until });
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
    const last = items.findLast((item) => "position" in item);
    if (last) report({ seen: last.position });
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
