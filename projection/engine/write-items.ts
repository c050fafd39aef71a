import pg from "pg";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import type { SubscriptionItem } from "../../shared/eventstore/subscription.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { decryptEvent, findKeysOf, isDecryptionError } from "../../shared/personal-data/decrypt-events.ts";
import { isPostgresUnavailable } from "../../shared/postgres/unavailable.ts";
import { createBackoff } from "../../shared/runtime/backoff.ts";
import { isTracing, startSpan } from "../../shared/tracing/span.ts";
import { type EventCheckpoint, type ReadModelCheckpoint, readCheckpoint } from "../checkpoints/checkpoint.ts";
import type { SkippedEvents, StreamsToSkip } from "../quarantine/quarantined-streams.ts";
import { ProjectionError } from "../roles/failure.ts";
import { applyBatch } from "./apply-batch.ts";
import type { ProjectionOptions, ReportProgress } from "./projection-options.ts";

export interface ProjectionRun {
  options: ProjectionOptions;
  checkpoint: ReadModelCheckpoint;
  streamsToSkip: StreamsToSkip;
  reportProgress: ReportProgress;
  signal: AbortSignal;
}

/**
 * Writes items of a subscription as one batch. If an event cannot be processed, the items before that event are
 * written, and the error names the event. Waits while the database is unavailable.
 *
 * @throws {ProjectionError}
 * @throws {LeadershipLostError}
 */
export async function writeItems(projectionRun: ProjectionRun, items: readonly SubscriptionItem[]): Promise<void> {
  const lastItem = items.findLast(movesCheckpoint);
  if (!lastItem) return;
  const newCheckpoint = {
    position: lastItem.position,
    eventId: lastItem.kind === "event" ? lastItem.event.id : lastItem.id,
  };
  const storedEvents = items.flatMap((item) => (item.kind === "event" ? [item.event] : []));
  try {
    const skippedEvents = countSkipped(items, projectionRun.streamsToSkip);
    await traceProjection(storedEvents, () => writeBatch(projectionRun, storedEvents, skippedEvents, newCheckpoint));
  } catch (error) {
    if (error instanceof ProjectionError && error.failedEventPosition) {
      const { position } = error.failedEventPosition;
      await writeItems(
        projectionRun,
        items.filter((item) => movesCheckpoint(item) && item.position < position),
      );
    }
    if (!isValueRefusal(error)) throw error;
    const [event] = storedEvents;
    if (event && storedEvents.length === 1) {
      const reason = `the database refused a value of ${event.type} (SQLSTATE ${error.code})`;
      throw new ProjectionError(reason, event, error);
    }
    for (const itemGroup of splitAfterEachEvent(items)) await writeItems(projectionRun, itemGroup);
  }
}

/** @throws {ProjectionError} with the position of an event that cannot be decrypted */
async function decryptBatch(events: readonly RecordedEvent[], dataKeys: DataKeys): Promise<readonly RecordedEvent[]> {
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

/**
 * A retry first checks the checkpoint, because the previous commit may have succeeded although its response was lost.
 */
async function writeBatch(
  { options, checkpoint, reportProgress, signal }: ProjectionRun,
  storedEvents: readonly RecordedEvent[],
  skippedEvents: ReadonlyMap<string, SkippedEvents>,
  newCheckpoint: EventCheckpoint,
): Promise<void> {
  const { pool, schema, models, dataKeys, logger, fillsUnusedTables: commitsAsynchronously = false } = options;
  const { position: fromPosition, tableOid } = checkpoint;
  const batchOptions = { skippedEvents, tableOid, commitsAsynchronously };
  const backoff = createBackoff({ firstMs: 100, maxMs: 3_000 });
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
      reportProgress({ position: newCheckpoint.position, waitsFor: null }, storedEvents.length);
      options.onBatch?.(storedEvents.length, (performance.now() - startedAt) / 1000);
      return;
    } catch (error) {
      if (!isPostgresUnavailable(error) || signal.aborted) throw error;
      logger.warn({ error }, "The projection waits for the database.");
      reportProgress({ waitsFor: "the database", lastError: error as Error });
      await backoff.pause(signal);
    }
  }
}

/** If the database is unavailable, the connection does not return to the pool. */
async function withConnection(pool: pg.Pool, run: (connection: pg.PoolClient) => Promise<void>): Promise<void> {
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

type CheckpointItem = Extract<SubscriptionItem, { kind: "event" | "skipped" }>;

/**
 * Events of other programs do not move the checkpoint. Such events may be deleted and then could not identify the log.
 */
function movesCheckpoint(item: SubscriptionItem): item is CheckpointItem {
  return item.kind === "event" || item.kind === "skipped";
}

function countSkipped(items: readonly SubscriptionItem[], streamsToSkip: StreamsToSkip): Map<string, SkippedEvents> {
  const skippedEvents = new Map<string, SkippedEvents>();
  for (const item of items) {
    const firstSkippedEvent = item.kind === "skipped" && streamsToSkip.get(item.stream);
    if (!firstSkippedEvent) continue;
    const { revision, position } = firstSkippedEvent;
    skippedEvents.set(item.stream, { revision, position, events: (skippedEvents.get(item.stream)?.events ?? 0n) + 1n });
  }
  return skippedEvents;
}

function splitAfterEachEvent(items: readonly SubscriptionItem[]): SubscriptionItem[][] {
  const itemGroups: SubscriptionItem[][] = [[]];
  for (const item of items) {
    itemGroups.at(-1)?.push(item);
    if (item.kind === "event") itemGroups.push([]);
  }
  return itemGroups;
}

/** SQLSTATE classes 22 (data exception) and 23 (integrity constraint violation). */
function isValueRefusal(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError && /^2[23]/.test(error.code ?? "");
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
