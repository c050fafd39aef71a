import type pg from "pg";
import { toStreamName } from "../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { sandboxStreams } from "../../shared/domain/events/sandbox.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import type { SubscriptionItem } from "../../shared/eventstore/subscription.ts";
import { DataKeyError, type DataKeys } from "../../shared/personal-data/data-keys.ts";
import { decryptEvent, findKeysOf, isDecryptionError } from "../../shared/personal-data/decrypt-events.ts";
import { isPostgresUnavailable, isStatementTimeout, isValueRefused } from "../../shared/runtime/failures.ts";
import type { Work } from "../../shared/runtime/work.ts";
import { endWith, isTracing, startSpan } from "../../shared/tracing/span.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import { isConfirmed } from "../quarantine/confirmed-types.ts";
import { type QuarantinedStream, WAITS_FOR_SANDBOX } from "../quarantine/quarantined-streams.ts";
import { ProjectionError } from "../roles/role.ts";
import { applyBatch, type Batch } from "./apply-batch.ts";
import { belongsToGeneration } from "./batch-segments.ts";
import { judgeOutcomes } from "./fuse.ts";
import type { ProjectionRun } from "./projection-options.ts";

/**
 * Creates the work that writes events to the read models. Each batch is one transaction. If an event cannot be
 * processed, its stream is quarantined from this event on, in the transaction that moves the checkpoint past the event.
 *
 * @param take returns the next items of a subscription
 * @throws {ProjectionError} if only an operator can resolve the failure of an event. The items before it are written
 * @throws {LeadershipLostError}
 */
export function createProjectionWork(
  projectionRun: ProjectionRun,
  take: Work<SubscriptionItem>["take"],
): Work<SubscriptionItem> {
  const { pool, schema } = projectionRun.options;
  return {
    take,
    handle: (items) => writeOrQuarantine(projectionRun, items),
    async setAside(item, error) {
      if (isKeyFailure(projectionRun, error)) throw error;
      quarantine(projectionRun, item, describeCause(error));
      await writeItems(projectionRun, [item]);
    },
    probe: () => pool.query(`UPDATE ${schema}.checkpoint SET position = position`),
  };
}

/**
 * Returns true if an event cannot be decrypted, usually because the master key is missing. The projectors then stop
 * instead of quarantining the event's stream. After an operator has confirmed the event's type, returns false.
 */
function isKeyFailure({ confirmedTypes }: ProjectionRun, error: unknown): boolean {
  if (!(error instanceof ProjectionError) || !(error.cause instanceof DataKeyError)) return false;
  return !error.failedEventPosition || !isConfirmed(confirmedTypes, error.failedEventPosition);
}

/**
 * Writes items. If an error names the event that caused it, quarantines the event's stream and tries again. This takes
 * fewer transactions than dividing the batch.
 */
async function writeOrQuarantine(projectionRun: ProjectionRun, items: readonly SubscriptionItem[]): Promise<void> {
  for (const item of items) {
    const cause = findObstacle(item, projectionRun.quarantinedStreams);
    if (cause !== undefined) quarantine(projectionRun, item, cause);
  }
  try {
    await writeItems(projectionRun, items);
  } catch (error) {
    const position = error instanceof ProjectionError ? error.failedEventPosition?.position : undefined;
    const item = items.find((item) => movesCheckpoint(item) && item.position === position);
    if (!item || isKeyFailure(projectionRun, error) || !quarantine(projectionRun, item, describeCause(error)))
      throw error;
    await writeOrQuarantine(projectionRun, items);
  }
}

/** @returns false if the stream of the item is already quarantined */
function quarantine({ options, quarantinedStreams }: ProjectionRun, item: SubscriptionItem, cause: string): boolean {
  if (!movesCheckpoint(item) || isSkipped(item, quarantinedStreams)) return false;
  const { stream, revision, position, type: eventType, metadata } = item.event;
  const since = toInstant(Date.now());
  const { clinicId } = metadata;
  quarantinedStreams.set(stream, { revision, position, eventType, cause, clinicId, since, events: 0n });
  const location = { stream, revision: String(revision), position: String(position) };
  options.logger.error({ ...location, cause }, "A stream was quarantined.");
  return true;
}

/** Cause of a quarantine if the transaction of a single event exceeds the time limit, although the database works. */
const TIMED_OUT = "the event takes longer than the time limit of a statement in the database";

/** Describes an error without values of the event. */
function describeCause(error: unknown): string {
  if (isStatementTimeout(error)) return TIMED_OUT;
  if (isValueRefused(error)) return `the database refused a value of the event (SQLSTATE ${error.code})`;
  return error instanceof ProjectionError ? error.reason : (error as Error).message;
}

/** @throws {ProjectionError} if the fuse blows */
async function writeItems(projectionRun: ProjectionRun, items: readonly SubscriptionItem[]): Promise<void> {
  const lastItem = items.findLast(movesCheckpoint);
  if (!lastItem) return;
  const { changedOutcomes, blownFuse } = judgeOutcomes(projectionRun, items);
  if (blownFuse) throw blownFuse;
  const newCheckpoint = { position: lastItem.position, eventId: lastItem.event.id };
  const { events, skippedEvents } = separateItems(items, projectionRun.quarantinedStreams);
  await traceProjection(events, () =>
    writeBatch(projectionRun, { events, skippedEvents, changedOutcomes, newCheckpoint }),
  );
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

type NewBatch = Required<Pick<Batch, "events" | "skippedEvents" | "changedOutcomes" | "newCheckpoint">>;

async function writeBatch(projectionRun: ProjectionRun, batch: NewBatch): Promise<void> {
  const { options, checkpoint, outcomes, progress, report, triedPosition } = projectionRun;
  const { pool, schema, models, dataKeys, fillsUnusedTables: commitsAsynchronously = false } = options;
  const { events, newCheckpoint } = batch;
  const { position: fromPosition, tableOid } = checkpoint;
  const startedAt = performance.now();
  projectionRun.triedPosition = newCheckpoint.position;
  // The commit of the previous try may have succeeded although its response was lost.
  const isWritten =
    triedPosition === newCheckpoint.position && (await readCheckpoint(pool, schema)).position === triedPosition;
  if (!isWritten) {
    // The search for data keys takes its own connection, so it must not start while this run holds the pool's only one.
    const decryptedEventsPromise = decryptBatch(events, dataKeys);
    decryptedEventsPromise.catch(() => undefined); // `applyBatch` handles the error
    await withConnection(pool, (client) =>
      applyBatch(
        { client, schema, models },
        { ...batch, decryptedEventsPromise, fromPosition, tableOid, commitsAsynchronously },
      ),
    );
  }
  checkpoint.position = newCheckpoint.position;
  for (const [type, typeOutcomes] of batch.changedOutcomes) outcomes.set(type, typeOutcomes);
  report({ position: newCheckpoint.position, eventCount: progress.eventCount + events.length });
  options.onBatch?.(events.length, (performance.now() - startedAt) / 1000);
}

/** Runs work with a connection. If the database is unavailable, the connection does not return to the pool. */
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
 * Returns false for events of other programs. Such an event may be deleted, and then a checkpoint at its position could
 * not identify the log.
 */
function movesCheckpoint(item: SubscriptionItem): item is CheckpointItem {
  return item.kind === "event" || item.kind === "unreadable";
}

function isSkipped({ event }: CheckpointItem, quarantinedStreams: ProjectionRun["quarantinedStreams"]): boolean {
  const { stream, revision } = event;
  const firstRevision = quarantinedStreams.get(stream)?.revision;
  return firstRevision !== undefined && revision >= firstRevision;
}

/** Returns the reason why an item must not be processed, although the tables might accept it. */
function findObstacle(
  item: SubscriptionItem,
  quarantinedStreams: ProjectionRun["quarantinedStreams"],
): string | undefined {
  if (item.kind === "unreadable") return item.reason;
  return item.kind === "event" && waitsForSandbox(item.event, quarantinedStreams) ? WAITS_FOR_SANDBOX : undefined;
}

function separateItems(
  items: readonly SubscriptionItem[],
  quarantinedStreams: ProjectionRun["quarantinedStreams"],
): { events: RecordedEvent[]; skippedEvents: Map<string, QuarantinedStream> } {
  const events: RecordedEvent[] = [];
  const skippedEvents = new Map<string, QuarantinedStream>();
  for (const item of items) {
    if (!movesCheckpoint(item)) continue;
    if (isSkipped(item, quarantinedStreams)) {
      const { stream, metadata } = item.event;
      const quarantinedStream = quarantinedStreams.get(stream) as QuarantinedStream;
      const clinicId = quarantinedStream.clinicId ?? metadata.clinicId;
      const skipped = skippedEvents.get(stream) ?? { ...quarantinedStream, clinicId, events: 0n };
      skippedEvents.set(stream, { ...skipped, events: skipped.events + 1n });
    } else if (item.kind === "event") events.push(item.event);
  }
  return { events, skippedEvents };
}

/** Returns true if an event adds data to a sandbox whose stream is quarantined. */
function waitsForSandbox(event: RecordedEvent, quarantinedStreams: ReadonlyMap<string, unknown>): boolean {
  if (!belongsToGeneration(event)) return false;
  return quarantinedStreams.has(toStreamName(sandboxStreams, event.data.applicationId ?? ""));
}

/** Age after which events are not traced, because their traces ended long ago. */
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
  const promise = apply();
  for (const span of spans) if (span) endWith(span, promise);
  await promise;
}
