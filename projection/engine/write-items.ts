import type pg from "pg";
import { toStreamName } from "../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { sandboxStreams } from "../../shared/domain/events/sandbox.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import type { LogPosition, SubscriptionItem, UnreadableItem } from "../../shared/eventstore/subscription.ts";
import { DataKeyError, type DataKeys } from "../../shared/personal-data/data-keys.ts";
import { decryptEvent, findKeysOf, isDecryptionError } from "../../shared/personal-data/decrypt-events.ts";
import { isPostgresUnavailable, isStatementTimeout, isValueRefused } from "../../shared/postgres/unavailable.ts";
import { createBackoff } from "../../shared/runtime/backoff.ts";
import { isTracing, startSpan } from "../../shared/tracing/span.ts";
import { type EventCheckpoint, type ReadModelCheckpoint, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { type QuarantinedStream, WAITS_FOR_SANDBOX } from "../quarantine/quarantined-streams.ts";
import { ProjectionError } from "../roles/failure.ts";
import { applyBatch } from "./apply-batch.ts";
import { judgeOutcomes, type Outcomes } from "./fuse.ts";
import type { Decisions, ProjectionOptions, ReportProgress } from "./projection-options.ts";
import { RowError } from "./rows.ts";

export interface ProjectionRun {
  options: ProjectionOptions;
  checkpoint: ReadModelCheckpoint;
  /** Streams whose events are skipped. {@link writeItems} adds a stream if one of its events cannot be processed. */
  quarantinedStreams: Map<string, QuarantinedStream>;
  decisions: Decisions;
  /** Outcomes of the events up to the checkpoint. */
  outcomes: Map<string, string>;
  reportProgress: ReportProgress;
  signal: AbortSignal;
}

/**
 * Writes items of a subscription as one batch. If an event cannot be processed, quarantines its stream from this event
 * on, and writes all other items. The transaction that moves the checkpoint past the event also records the quarantine.
 * Waits while the database is unavailable.
 *
 * @throws {ProjectionError} if only an operator can resolve the failure. If an event failed, the items before it are
 *   written
 * @throws {LeadershipLostError}
 */
export async function writeItems(projectionRun: ProjectionRun, items: readonly SubscriptionItem[]): Promise<void> {
  const lastItem = items.findLast(movesCheckpoint);
  if (!lastItem) return;
  const newCheckpoint = {
    position: lastItem.position,
    eventId: lastItem.kind === "event" ? lastItem.event.id : lastItem.id,
  };
  for (;;) {
    const { changedOutcomes, blownFuse } = judgeOutcomes(projectionRun, items);
    const { events, skippedEvents, blockedItem } = separateItems(items, projectionRun.quarantinedStreams);
    const batch = { events, skippedEvents, changedOutcomes, newCheckpoint };
    const failure =
      blownFuse ??
      (blockedItem
        ? new ProjectionError(blockedItem.reason, blockedItem, undefined)
        : await findFailure(events, () => traceProjection(events, () => writeBatch(projectionRun, batch))));
    if (!failure) return;
    const { failedEventPosition, cause } = failure;
    if (!failedEventPosition) {
      const middle = Math.ceil(items.length / 2);
      await writeItems(projectionRun, items.slice(0, middle));
      await writeItems(projectionRun, items.slice(middle));
      return;
    }
    const { position } = failedEventPosition;
    const clinicId =
      blockedItem?.clinicId ?? events.find((event) => event.position === position)?.metadata.clinicId ?? null;
    // A key that cannot be used is no fault of the event. Usually, the master key is missing.
    if (!blownFuse && !(cause instanceof DataKeyError)) {
      quarantine(projectionRun, failure, failedEventPosition, clinicId);
      continue;
    }
    await writeItems(
      projectionRun,
      items.filter((item) => movesCheckpoint(item) && item.position < position),
    );
    throw failure;
  }
}

function quarantine(
  { quarantinedStreams }: ProjectionRun,
  { reason: cause }: ProjectionError,
  { stream, revision, position, type: eventType }: LogPosition,
  clinicId: string | null,
): void {
  const since = toInstant(Date.now());
  const quarantinedStream = { revision, position, eventType, cause, clinicId, since, events: 0n };
  quarantinedStreams.set(stream, { ...quarantinedStream, replayedAfterDecision: null });
}

/** Cause of a quarantine if the database is fast, but the transaction of a single event is not. */
const TIMED_OUT = "the event takes longer than the time limit of a statement in the database";

/**
 * Writes a batch.
 *
 * @returns the error if an event of the batch is the cause, or the batch takes too long. It names the event, unless the
 *   event must still be found
 * @throws other errors
 */
async function findFailure(
  events: readonly RecordedEvent[],
  write: () => Promise<void>,
): Promise<ProjectionError | undefined> {
  try {
    await write();
    return undefined;
  } catch (error) {
    if (error instanceof ProjectionError && error.failedEventPosition) return error;
    const [event, otherEvent] = events;
    if (event && isStatementTimeout(error))
      return new ProjectionError(TIMED_OUT, otherEvent ? undefined : event, error);
    if (!event || !(isValueRefused(error) || error instanceof RowError)) throw error;
    const reason =
      error instanceof RowError
        ? error.message
        : `the database refused a value of ${event.type} (SQLSTATE ${error.code})`;
    return new ProjectionError(reason, otherEvent ? undefined : event, error);
  }
}

/** @throws {ProjectionError} with the position of an event that cannot be decrypted */
export async function decryptBatch(
  events: readonly RecordedEvent[],
  dataKeys: DataKeys,
): Promise<readonly RecordedEvent[]> {
  if (!events.some(({ encrypted }) => encrypted)) return events;
  const keys = await findKeysOf(events, dataKeys);
  return events.map((event) => {
    try {
      return decryptEvent(event, keys);
    } catch (error) {
      if (!isDecryptionError(error)) throw error;
      throw new ProjectionError(error.message, event, error);
    }
  });
}

interface Batch {
  events: readonly RecordedEvent[];
  skippedEvents: ReadonlyMap<string, QuarantinedStream>;
  changedOutcomes: Outcomes;
  newCheckpoint: EventCheckpoint;
}

/** Number of times that the transaction of a single event must exceed the time limit before its stream is quarantined. */
const MAX_TIMEOUTS = 3;

/**
 * A retry first checks the checkpoint, because the previous commit may have succeeded although its response was lost.
 *
 * @throws the statement timeout of a batch that can be divided, or of an event that is slow in a fast database
 */
async function writeBatch(
  { options, checkpoint, decisions, outcomes, reportProgress, signal }: ProjectionRun,
  { events: storedEvents, skippedEvents, changedOutcomes, newCheckpoint }: Batch,
): Promise<void> {
  const { pool, schema, models, dataKeys, logger, fillsUnusedTables: commitsAsynchronously = false } = options;
  const { position: fromPosition, tableOid } = checkpoint;
  const batchOptions = { skippedEvents, changedOutcomes, tableOid, commitsAsynchronously };
  const backoff = createBackoff({ firstMs: 100, maxMs: 3_000 });
  let timeoutCount = 0;
  for (let isRetry = false; ; isRetry = true) {
    const startedAt = performance.now();
    try {
      if (!isRetry || (await readCheckpoint(pool, schema)).position !== newCheckpoint.position) {
        // The search for data keys takes its own connection, so it must not start while this run holds the pool's only one.
        const decryptedEventsPromise = decryptBatch(storedEvents, dataKeys);
        decryptedEventsPromise.catch(() => undefined); // `applyBatch` handles the error
        await withConnection(pool, (connection) =>
          applyBatch(connection, schema, models, storedEvents, fromPosition, newCheckpoint, {
            ...batchOptions,
            decryptedEventsPromise,
          }),
        );
      }
      checkpoint.position = newCheckpoint.position;
      for (const [type, typeOutcomes] of changedOutcomes) outcomes.set(type, typeOutcomes);
      for (const [stream, { revision, position, cause }] of skippedEvents)
        if (position > fromPosition && !decisions.streams.has(stream))
          logger.error(
            { stream, revision: String(revision), position: String(position), cause },
            "A stream was quarantined.",
          );
      reportProgress({ position: newCheckpoint.position, waitsFor: null }, storedEvents.length);
      options.onBatch?.(storedEvents.length, (performance.now() - startedAt) / 1000);
      return;
    } catch (error) {
      if (isStatementTimeout(error)) {
        // A smaller batch may take less time than the limit.
        if (storedEvents.length > 1) throw error;
        timeoutCount += 1;
        if (timeoutCount >= MAX_TIMEOUTS && (await commitsQuickly(pool, schema))) throw error;
      }
      if (!isPostgresUnavailable(error) || signal.aborted) throw error;
      logger.warn({ error }, "The projection waits for the database.");
      reportProgress({ waitsFor: "the database", lastError: error as Error });
      await backoff.pause(signal);
    }
  }
}

/** Time limit for a transaction that changes one row, in a database that is not slow for all transactions. */
const QUICK_COMMIT_MS = 1_000;

async function commitsQuickly(pool: pg.Pool, schema: string): Promise<boolean> {
  const startedAt = performance.now();
  try {
    await pool.query(`UPDATE ${schema}.checkpoint SET position = position`);
    return performance.now() - startedAt < QUICK_COMMIT_MS;
  } catch (error) {
    if (!isPostgresUnavailable(error)) throw error;
    return false;
  }
}

/** If the database is unavailable, the connection does not return to the pool. */
export async function withConnection(pool: pg.Pool, run: (connection: pg.PoolClient) => Promise<void>): Promise<void> {
  const connection = await pool.connect();
  let connectionError: Error | undefined;
  try {
    await run(connection);
  } catch (error) {
    connectionError = error as Error;
    throw error;
  } finally {
    connection.release(isPostgresUnavailable(connectionError) ? connectionError : undefined);
  }
}

type CheckpointItem = Extract<SubscriptionItem, { kind: "event" | "unreadable" }>;

/**
 * Events of other programs do not move the checkpoint. Such events may be deleted and then could not identify the log.
 */
function movesCheckpoint(item: SubscriptionItem): item is CheckpointItem {
  return item.kind === "event" || item.kind === "unreadable";
}

/** An event that must not be processed, although the tables might accept it. */
type BlockedItem = LogPosition & Pick<UnreadableItem, "reason" | "clinicId">;

/** Separates the items that the run skips from the events to process. */
function separateItems(
  items: readonly SubscriptionItem[],
  quarantinedStreams: ReadonlyMap<string, QuarantinedStream>,
): { events: RecordedEvent[]; skippedEvents: Map<string, QuarantinedStream>; blockedItem?: BlockedItem } {
  const events: RecordedEvent[] = [];
  const skippedEvents = new Map<string, QuarantinedStream>();
  for (const item of items) {
    if (item.kind !== "event" && item.kind !== "unreadable") continue;
    const { stream, revision } = item.kind === "event" ? item.event : item;
    const quarantinedStream = quarantinedStreams.get(stream);
    if (quarantinedStream && revision >= quarantinedStream.revision) {
      const { events: eventCount, clinicId } = skippedEvents.get(stream) ?? {
        events: 0n,
        clinicId: quarantinedStream.clinicId ?? (item.kind === "event" ? item.event.metadata.clinicId : item.clinicId),
      };
      skippedEvents.set(stream, { ...quarantinedStream, clinicId, events: eventCount + 1n });
    } else if (item.kind === "unreadable") return { events, skippedEvents, blockedItem: item };
    else if (waitsForSandbox(item.event, quarantinedStreams)) {
      const { clinicId } = item.event.metadata;
      return { events, skippedEvents, blockedItem: { ...item.event, reason: WAITS_FOR_SANDBOX, clinicId } };
    } else events.push(item.event);
  }
  return { events, skippedEvents };
}

/** Returns true if the tables may lack the generation of the sandbox in which an event requests an appointment. */
export function waitsForSandbox(event: RecordedEvent, quarantinedStreams: ReadonlyMap<string, unknown>): boolean {
  if (event.type !== "AppointmentRequested" || event.data.sandboxGeneration === 0) return false;
  return quarantinedStreams.has(toStreamName(sandboxStreams, event.data.applicationId ?? ""));
}

/** The trace of an older event ended long ago. */
const MAX_AGE_MS = 60 * 60_000;

/**
 * Applies events with one span for each traced event. All spans of a batch have the same duration, because a batch is
 * one transaction. Old events are not traced, so that new read models do not create a span for each event of the log.
 */
export async function traceProjection(events: readonly RecordedEvent[], apply: () => Promise<void>): Promise<void> {
  if (!isTracing()) return apply();
  const minTime = Date.now() - MAX_AGE_MS;
  const spans = events
    .filter(({ metadata }) => Date.parse(metadata.occurredAt) > minTime)
    .map(({ type, metadata }) => startSpan(`project ${type}`, "consumer", metadata.traceparent));
  const endSpans = (error?: unknown) => {
    for (const span of spans) span?.end(error);
  };
  try {
    await apply();
    endSpans();
  } catch (error) {
    endSpans(error);
    throw error;
  }
}
