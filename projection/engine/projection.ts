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
import {
  QUARANTINE_STREAM,
  type QuarantinedStream,
  readQuarantinedStreams,
} from "../quarantine/quarantined-streams.ts";
import { LeadershipLostError, OTHER_RELEASE } from "../roles/role.ts";
import { computeFingerprint } from "./ddl.ts";
import { readOutcomes } from "./fuse.ts";
import type { ProjectionOptions, ProjectionProgress, ProjectionRun, ReportProgress } from "./projection-options.ts";
import { readInCallingThread } from "./read-log.ts";
import { REPLAY_TIMED_OUT, replayStreams } from "./replay-streams.ts";
import { createProjectionWork } from "./write-items.ts";

const RESTART_PAUSE_MS = 100;

const MAX_BATCH_ITEMS = 2_000;

/** The buffer holds two batches, so that reading rarely waits for writing. */
const MAX_BUFFERED_ITEMS = 2 * MAX_BATCH_ITEMS;

/**
 * Updates the read models of a schema from the log until the signal aborts or the run reaches `endPosition`. While a
 * batch is written, the subscription fills a buffer with the events of the next batch. Batches therefore grow with the
 * lag, and a live event does not wait for a full batch. If the log or the database is unavailable, the run waits. The
 * run skips quarantined streams and records the skipped events. If an event cannot be processed, the run quarantines its
 * stream.
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
  const reportProgress: ReportProgress = (update, eventCount = 0) =>
    options.onProgress(Object.assign(progress, update, { eventCount: progress.eventCount + eventCount }));
  const report = (error: unknown) => {
    if (error === null) return reportProgress({ waitsFor: null });
    const isDatabaseError = isPostgresUnavailable(error) || error instanceof pg.DatabaseError;
    reportProgress({ waitsFor: isDatabaseError ? "the database" : "the event log", lastError: error as Error });
  };
  const loop = { name: "projection", logger: options.logger, signal, report };
  const replayState: ReplayState = { decisionRevision: undefined };
  const run = () =>
    runSubscription(options, progress, reportProgress, replayState, loop).catch((error: unknown) => {
      reportProgress({ hasCaughtUp: false });
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

interface ReplayState {
  /** Revision of the operators' last decision when the run last replayed quarantined streams. */
  decisionRevision: bigint | undefined;
}

/**
 * Processes the events of one subscription, from the checkpoint on. Returns after a decision of an operator, because the
 * next subscription must skip different streams. First replays the streams that no operator has
 * quarantined: this release may process what another release or other data keys could not.
 */
async function runSubscription(
  options: ProjectionOptions,
  progress: ProjectionProgress,
  reportProgress: ReportProgress,
  replayState: ReplayState,
  loop: Loop,
): Promise<void> {
  const { signal } = loop;
  const checkpoint = await readCheckpoint(options.pool, options.schema);
  if (checkpoint.fingerprint !== computeFingerprint(options.models)) throw new LeadershipLostError(OTHER_RELEASE);
  reportProgress({ position: checkpoint.position, lastReadPosition: checkpoint.position });
  if (signal.aborted) return;
  await requireMatchingLog(options, checkpoint);
  if (hasReachedEnd(options, progress)) return;
  const decisions = await options.loadDecisions();
  const quarantinedStreams = await readQuarantinedStreams(options.pool, options.schema);
  const outcomes = await readOutcomes(options.pool, options.schema);
  const projectionRun = { options, checkpoint, quarantinedStreams, decisions, outcomes, reportProgress, signal };
  if (replayState.decisionRevision !== decisions.lastRevision) {
    const isReplayable = ([stream, { cause, replayedAfterDecision }]: [string, QuarantinedStream]) =>
      !decisions.streams.has(stream) &&
      !(cause === REPLAY_TIMED_OUT && replayedAfterDecision === decisions.lastRevision);
    const streams = [...quarantinedStreams].filter(isReplayable).map(([stream]) => stream);
    const isComplete = await replayStreams(projectionRun, streams, decisions.lastRevision);
    if (isComplete) replayState.decisionRevision = decisions.lastRevision;
  }
  for (const [stream, decision] of decisions.streams) {
    if (decision.position <= checkpoint.position || quarantinedStreams.has(stream)) continue;
    quarantinedStreams.set(stream, { ...decision, clinicId: null, events: 0n, replayedAfterDecision: null });
  }
  const buffer = new BoundedBuffer<SubscriptionItem>(MAX_BUFFERED_ITEMS);
  if (options.fillsUnusedTables) buffer.setMinimum(MAX_BATCH_ITEMS);
  const subscriptionController = new AbortController();
  const endSubscription = () => {
    subscriptionController.abort();
    buffer.close();
  };
  const removeListener = onAbort(signal, endSubscription);
  try {
    const fillPromise = fillBuffer(buffer, projectionRun, subscriptionController.signal).finally(() => buffer.close());
    const writePromise = writeFromBuffer(buffer, projectionRun, decisions.lastRevision, progress, loop).finally(
      endSubscription,
    );
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

/** @param knownRevision revision of the last quarantine event that is reflected in `run.quarantinedStreams` */
function writeFromBuffer(
  buffer: BoundedBuffer<SubscriptionItem>,
  projectionRun: ProjectionRun,
  knownRevision: bigint,
  progress: ProjectionProgress,
  loop: Loop,
): Promise<void> {
  const { options, reportProgress } = projectionRun;
  let items: readonly SubscriptionItem[] = [];
  const take = async () => {
    // The items of the previous batch are written.
    const lastItem = items.findLast((item) => "position" in item);
    if (lastItem) reportProgress({ lastReadPosition: lastItem.position });
    if (items.some((item) => item.kind === "caughtUp")) {
      await markFilled(options.pool, options.schema);
      reportProgress({ hasCaughtUp: true });
    }
    if (hasReachedEnd(options, progress) || items.some((item) => isQuarantineEventAfter(item, knownRevision))) return;
    items = await buffer.take(MAX_BATCH_ITEMS);
    return items.length === 0 ? undefined : items;
  };
  return runWork(createProjectionWork(projectionRun, take), loop);
}

function isQuarantineEventAfter(item: SubscriptionItem, knownRevision: bigint): boolean {
  if (item.kind !== "event") return false;
  const { stream, revision } = item.event;
  return stream === QUARANTINE_STREAM && revision > knownRevision;
}
