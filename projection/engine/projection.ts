import pg from "pg";
import { EventSchemaError } from "../../shared/domain/events/stored-event.ts";
import {
  type SubscriptionItem,
  subscribeToLog,
  UnreadableEventError,
} from "../../shared/eventstore/subscription.ts";
import { isPostgresUnavailable } from "../../shared/postgres/unavailable.ts";
import { createBackoff } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import { BEFORE_FIRST, type ReadModelCheckpoint, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { DifferentLogError, requireAnchored, requireSameLog } from "../checkpoints/same-log.ts";
import { gapsOf, readSkipped } from "../parking/skipped-events.ts";
import { LeadershipLostError, OTHER_RELEASE, ProjectionError } from "../roles/failure.ts";
import type { AwaitedServer } from "../roles/role.ts";
import { shapeOf } from "./ddl.ts";
import type { ProjectionOptions, ProjectionProgress, Report } from "./projection-options.ts";
import { type ProjectionRun, writeItems } from "./write-items.ts";

/** Most events in one transaction, and most that are buffered. Two batches fit, so that reading rarely waits for writing. */
const MAX_BATCH = 2_000;
const MAX_BUFFERED = 2 * MAX_BATCH;

/**
 * Keeps the read models of a schema up to date with the log until the signal aborts, or up to a position. A subscription
 * fills a buffer while the previous batch is written. So batches grow with the lag, and live events are not delayed. If
 * the log or the database is unavailable, the run waits. Parked streams are skipped, and the skipped events are recorded.
 *
 * @throws {ProjectionError} for an event that cannot be processed. Earlier events are written, later ones are not
 * @throws {LeadershipLostError} if another process moved the checkpoint, or a rebuild or another release replaced the tables
 * @throws {DifferentLogError} if the checkpoint belongs to another log. Nothing is written from then on
 */
export async function runProjection(options: ProjectionOptions, signal: AbortSignal): Promise<void> {
  const progress: ProjectionProgress = {
    position: BEFORE_FIRST,
    seen: BEFORE_FIRST,
    caughtUp: false,
    waitsFor: null,
    lastError: null,
    events: 0,
  };
  const report: Report = (change, events = 0) =>
    options.onProgress(Object.assign(progress, change, { events: progress.events + events }));
  const wait = createBackoff({ firstMs: 100, maxMs: 3_000 });
  while (!signal.aborted) {
    const before = progress.position;
    try {
      await follow(options, progress, report, signal);
    } catch (error) {
      const lastError = error as Error;
      const waitsFor = whatToWaitFor(lastError);
      if (!signal.aborted) options.logger.warn({ error, waitsFor }, "The projection waits and tries again.");
      report({ waitsFor, lastError, caughtUp: false });
    }
    if (isDone(options, progress)) return;
    // Only a commit proves progress. Opening a subscription can succeed again and again without one.
    if (progress.position > before) wait.reset();
    await wait.next(signal);
  }
}

/** @throws errors that do not go away by waiting */
function whatToWaitFor(error: Error): AwaitedServer {
  if (error instanceof UnreadableEventError)
    throw new ProjectionError(error.reason, error.logPosition, error);
  if (error instanceof EventSchemaError) throw new ProjectionError(error.message, undefined, error);
  if ([ProjectionError, LeadershipLostError, DifferentLogError].some((final) => error instanceof final))
    throw error;
  if (isPostgresUnavailable(error)) return "the database";
  if (error instanceof pg.DatabaseError) {
    throw new ProjectionError(`The database refused a statement (SQLSTATE ${error.code}).`, undefined, error);
  }
  return "the event log";
}

function isDone({ until }: ProjectionOptions, { seen }: ProjectionProgress): boolean {
  return until !== undefined && seen >= until;
}

/** @throws {DifferentLogError} */
async function requireLog(options: ProjectionOptions, checkpoint: ReadModelCheckpoint): Promise<void> {
  if (!options.adopting) await requireSameLog(options);
  await requireAnchored(options.client, `schema ${options.schema}`, checkpoint);
}

/** Processes one subscription, from the checkpoint on. Also returns when an operator parks or resumes a stream. */
async function follow(
  options: ProjectionOptions,
  progress: ProjectionProgress,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  const checkpoint = await readCheckpoint(options.pool, options.schema);
  if (checkpoint.shape !== shapeOf(options.models)) throw new LeadershipLostError(OTHER_RELEASE);
  report({ position: checkpoint.position, seen: checkpoint.position });
  if (signal.aborted) return;
  await requireLog(options, checkpoint);
  if (isDone(options, progress)) return;
  const parked = await options.parked();
  const skipped = await readSkipped(options.pool, options.schema);
  const gaps = gapsOf(parked, skipped, checkpoint.position);
  const buffer = new BoundedBuffer<SubscriptionItem>(MAX_BUFFERED);
  const life = new AbortController();
  const end = () => {
    life.abort();
    buffer.close();
  };
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  try {
    const run = { options, checkpoint, gaps, report, signal };
    const filled = fill(buffer, run, life.signal).finally(() => buffer.close());
    const written = write(buffer, run, parked.upTo, progress).finally(end);
    const [fillResult, writeResult] = await Promise.allSettled([filled, written]);
    // The writer's error comes first, because it may be final.
    if (writeResult.status === "rejected") throw writeResult.reason;
    if (fillResult.status === "rejected") throw fillResult.reason;
  } finally {
    signal.removeEventListener("abort", end);
  }
}

async function fill(
  buffer: BoundedBuffer<SubscriptionItem>,
  { options, checkpoint, gaps }: ProjectionRun,
  signal: AbortSignal,
): Promise<void> {
  const { client, until } = options;
  // A copy, because the writer moves the checkpoint.
  const start = { ...checkpoint };
  const after = start.position === BEFORE_FIRST ? undefined : start.position;
  const isSkipped = (stream: string, revision: bigint) => {
    const gap = gaps.get(stream);
    return gap !== undefined && revision >= gap.revision;
  };
  let confirmed = false;
  try {
    for await (const item of subscribeToLog({ client, after, isSkipped, signal })) {
      // The log may have been replaced between the first check and the subscription.
      if (!confirmed) await requireLog(options, start);
      confirmed = true;
      if (until !== undefined && (item.kind === "caughtUp" || item.position > until)) break;
      const room = buffer.push(item);
      if (room) await room;
    }
  } catch (error) {
    const beyond =
      error instanceof UnreadableEventError && until !== undefined && error.logPosition.position > until;
    // An unreadable event after `until` does not matter.
    if (!beyond) throw error;
  }
  // The subscription has delivered everything up to there. The event at `until` itself may be another program's and deleted.
  if (until !== undefined && !signal.aborted) await buffer.push({ kind: "foreign", position: until });
}

/** @param knownActs the revision of the last act of parking or resuming that the run goes by */
async function write(
  buffer: BoundedBuffer<SubscriptionItem>,
  run: ProjectionRun,
  knownRevision: bigint,
  progress: ProjectionProgress,
): Promise<void> {
  const { options, report } = run;
  for (;;) {
    const items = await buffer.take(MAX_BATCH);
    if (items.length === 0) return;
    await writeItems(run, items);
    const last = items.findLast((item) => "position" in item);
    if (last) report({ seen: last.position });
    if (items.some((item) => item.kind === "caughtUp")) report({ caughtUp: true });
    report({ waitsFor: null });
    if (isDone(options, progress) || items.some((item) => isParkingEventAfter(item, knownRevision))) return;
  }
}

function isParkingEventAfter(item: SubscriptionItem, known: bigint): boolean {
  if (item.kind !== "event") return false;
  const { type, revision } = item.event;
  return (type === "StreamParked" || type === "StreamResumed") && revision > known;
}
