import pg from "pg";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import type { SubscriptionItem } from "../../shared/eventstore/subscription.ts";
import { onAbort } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import { isPostgresUnavailable } from "../../shared/runtime/failures.ts";
import { type Loop, retry, runWork } from "../../shared/runtime/work.ts";
import { markFilled, type ReadModelCheckpoint, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { requireCheckpointInLog, requireSameLog } from "../checkpoints/same-log.ts";
import { readConfirmedTypes } from "../quarantine/confirmed-types.ts";
import { readQuarantinedStreams } from "../quarantine/quarantined-streams.ts";
import { LeadershipLostError, OTHER_RELEASE } from "../roles/role.ts";
import { computeFingerprint } from "./ddl.ts";
import { readOutcomes } from "./fuse.ts";
import type { ProjectionOptions, ProjectionProgress, ProjectionRun } from "./projection-options.ts";
import { readInCallingThread } from "./read-log.ts";
import { createProjectionWork } from "./write-items.ts";

const RESTART_PAUSE_MS = 100;

const MAX_BATCH_ITEMS = 2_000;

/** The buffer holds two batches, so that reading rarely waits for writing. */
const MAX_BUFFERED_ITEMS = 2 * MAX_BATCH_ITEMS;

/**
 * Updates the read models of a schema from the log until the signal aborts or the run reaches `endPosition`. If the log
 * or the database is unavailable, the run waits. If an event cannot be processed, the run quarantines its stream. Later
 * events of the stream are skipped and recorded.
 *
 * While a batch is written, the next events fill a buffer. Batches therefore grow with the lag, and a live event does
 * not wait for a full batch.
 *
 * @throws {ProjectionError} if only an operator can resolve a failure. If an event failed, the events before it are
 *   written
 * @throws {LeadershipLostError} if another process moved the checkpoint, or a rebuild or another release replaced the
 *   tables
 * @throws {DifferentLogError} if the checkpoint belongs to another log. The run then writes nothing more
 */
export async function runProjection(options: ProjectionOptions, signal: AbortSignal): Promise<void> {
  const progress: ProjectionProgress = {
    position: BEFORE_FIRST_EVENT,
    lastReadPosition: BEFORE_FIRST_EVENT,
    hasCaughtUp: false,
    waitsFor: null,
    lastError: null,
    eventCount: 0,
  };
  const report: ProjectionRun["report"] = (update) => options.onProgress(Object.assign(progress, update));
  const reportError = (error: unknown) => {
    if (error === null) return report({ waitsFor: null });
    const isDatabaseError = isPostgresUnavailable(error) || error instanceof pg.DatabaseError;
    report({ waitsFor: isDatabaseError ? "the database" : "the event log", lastError: error as Error });
  };
  const loop = { name: "projection", logger: options.logger, signal, report: reportError };
  const run = () =>
    runSubscription(options, progress, report, loop).catch((error: unknown) => {
      report({ hasCaughtUp: false });
      throw error;
    });
  try {
    do {
      await retry(loop, run);
      if (hasReachedEnd(options, progress)) return;
      await pause(RESTART_PAUSE_MS, signal);
    } while (!signal.aborted);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

function hasReachedEnd({ endPosition }: ProjectionOptions, { lastReadPosition }: ProjectionProgress): boolean {
  return endPosition !== undefined && lastReadPosition >= endPosition;
}

async function requireMatchingLog(options: ProjectionOptions, checkpoint: ReadModelCheckpoint): Promise<void> {
  if (!options.adoptsLog) await requireSameLog(options);
  await requireCheckpointInLog(options.client, `schema ${options.schema}`, checkpoint);
}

/** Processes the events of one subscription, from the checkpoint on. */
async function runSubscription(
  options: ProjectionOptions,
  progress: ProjectionProgress,
  report: ProjectionRun["report"],
  loop: Loop,
): Promise<void> {
  const { client, pool, schema } = options;
  const checkpoint = await readCheckpoint(pool, schema);
  if (checkpoint.fingerprint !== computeFingerprint(options.models)) throw new LeadershipLostError(OTHER_RELEASE);
  report({ position: checkpoint.position, lastReadPosition: checkpoint.position });
  if (loop.signal.aborted) return;
  await requireMatchingLog(options, checkpoint);
  if (hasReachedEnd(options, progress)) return;
  const projectionRun: ProjectionRun = {
    ...{ options, checkpoint, progress, report },
    confirmedTypes: await readConfirmedTypes(client),
    quarantinedStreams: await readQuarantinedStreams(pool, schema),
    outcomes: await readOutcomes(pool, schema),
  };
  const buffer = new BoundedBuffer<SubscriptionItem>(MAX_BUFFERED_ITEMS);
  if (options.fillsUnusedTables) buffer.setMinimum(MAX_BATCH_ITEMS);
  const subscriptionController = new AbortController();
  const endSubscription = () => {
    subscriptionController.abort();
    buffer.close();
  };
  const removeListener = onAbort(loop.signal, endSubscription);
  try {
    const fillPromise = fillBuffer(buffer, projectionRun, subscriptionController.signal).finally(() => buffer.close());
    const writePromise = writeFromBuffer(buffer, projectionRun, loop).finally(endSubscription);
    const [fillResult, writeResult] = await Promise.allSettled([fillPromise, writePromise]);
    // If the reader and the writer both failed, the writer's error is thrown, because that error may be permanent.
    if (writeResult.status === "rejected") throw writeResult.reason;
    if (fillResult.status === "rejected") throw fillResult.reason;
  } finally {
    removeListener();
  }
}

async function fillBuffer(
  buffer: BoundedBuffer<SubscriptionItem>,
  { options, checkpoint }: ProjectionRun,
  signal: AbortSignal,
): Promise<void> {
  const { client, endPosition, readLog = readInCallingThread(client) } = options;
  // The writer changes `checkpoint`, so the start position of the subscription needs a copy.
  const startCheckpoint = { ...checkpoint };
  const afterPosition = startCheckpoint.position === BEFORE_FIRST_EVENT ? undefined : startCheckpoint.position;
  let isLogConfirmed = false;
  for await (const logItem of readLog({ after: afterPosition, signal })) {
    // The log may have been replaced between the first check and the subscription.
    if (!isLogConfirmed) await requireMatchingLog(options, startCheckpoint);
    isLogConfirmed = true;
    if (endPosition !== undefined && (logItem.kind === "caughtUp" || logItem.position > endPosition)) break;
    const spacePromise = buffer.push(logItem);
    if (logItem.kind === "caughtUp") buffer.setMinimum(1);
    if (spacePromise) await spacePromise;
  }
  // All events up to `endPosition` are now buffered. If the event at `endPosition` was deleted, the subscription never
  // reaches this position, so an item with the position is added here.
  if (endPosition !== undefined && !signal.aborted) await buffer.push({ kind: "foreign", position: endPosition });
}

function writeFromBuffer(
  buffer: BoundedBuffer<SubscriptionItem>,
  projectionRun: ProjectionRun,
  loop: Loop,
): Promise<void> {
  const { options, progress, report } = projectionRun;
  let items: readonly SubscriptionItem[] = [];
  const take = async () => {
    // The items of the previous batch are written.
    const lastItem = items.findLast((item) => "position" in item);
    if (lastItem) report({ lastReadPosition: lastItem.position });
    if (items.some((item) => item.kind === "caughtUp")) {
      await markFilled(options.pool, options.schema);
      report({ hasCaughtUp: true });
    }
    if (hasReachedEnd(options, progress)) return;
    items = await buffer.take(MAX_BATCH_ITEMS);
    return items.length === 0 ? undefined : items;
  };
  return runWork(createProjectionWork(projectionRun, take), loop);
}
