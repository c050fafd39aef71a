import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { BEFORE_FIRST_EVENT, readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { subscribeToStoredEvents } from "../../../shared/eventstore/subscription.ts";
import { withLeadership } from "../../../shared/postgres/leadership.ts";
import { runTaskGroup } from "../../../shared/runtime/abort.ts";
import { createNotifier, pause } from "../../../shared/runtime/backoff.ts";
import { classify } from "../../../shared/runtime/failures.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { divide, repeat } from "../../../shared/runtime/work.ts";
import { type AuditEvent, toAuditEvent } from "../log/audit-event.ts";
import { isOfLog } from "../log/scan.ts";
import { TreeEdge } from "../tree/merkle-tree.ts";
import { AuditIndex, requireSameLog } from "./audit-index.ts";
import { addToIndex, type IndexSchema, readIndexCheckpoint } from "./index-store.ts";

interface FillOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  schema: IndexSchema;
  /** Called after each batch, with the covered log position and the number of events, including system events. */
  onAdded(position: bigint, count: number): Promise<void> | void;
}

interface IndexOptions extends Pick<FillOptions, "client" | "pool"> {
  databaseUrl: string;
  logger: Logger;
}

const MAX_BATCH = 1_000;

const MAX_PENDING = 2 * MAX_BATCH;

const PROGRESS_INTERVAL_MS = 10_000;

/** Pause after a batch that is not full. Larger batches save most of the CPU time in Postgres. */
const BATCH_PAUSE_MS = 20;

/** Delay before the next attempt after an error that only an operator can resolve. */
const STOP_CHECK_INTERVAL_MS = 5_000;

/**
 * Fills the audit index from the log and keeps it up to date, until the signal aborts. Only one process fills the index
 * at a time. Failures are logged and retried, because an index that is behind only delays queries.
 */
export async function runIndex(
  { client, pool, databaseUrl, logger }: IndexOptions,
  signal: AbortSignal,
): Promise<void> {
  const loop = { name: "audit index", logger, signal, report: () => undefined };
  const leadership = { name: loop.name, databaseUrl, logger, signal, onStandby: () => undefined };
  const fill = async () => {
    try {
      await withLeadership(leadership, (termSignal) => {
        const onAdded = createProgressReporter(client, logger);
        return fillIndex({ client, pool, schema: "audit", onAdded }, termSignal);
      });
    } catch (error) {
      if (classify(error) !== "stop") throw error;
      logger.error({ error }, "The audit index is not filled.");
    }
  };
  await repeat(loop, fill, () => pause(STOP_CHECK_INTERVAL_MS, signal));
}

interface PendingEvent {
  position: bigint;
  /** Undefined for a system event of the log, which the index omits. */
  event: AuditEvent | undefined;
}

/**
 * Fills an index, starting after its checkpoint, until the signal aborts.
 *
 * @param endPosition log position at which the fill ends; undefined to follow the log
 * @throws {DifferentLogError}
 * @throws {CheckpointMovedError}
 */
export async function fillIndex(
  { client, pool, schema, onAdded }: FillOptions,
  signal: AbortSignal,
  endPosition?: bigint,
): Promise<void> {
  let checkpoint = await readIndexCheckpoint(pool, schema);
  await requireSameLog(client, checkpoint);
  const after = checkpoint.position === BEFORE_FIRST_EVENT ? undefined : checkpoint.position;
  const { readHashes } = new AuditIndex(() => pool, schema);
  let edge: TreeEdge | undefined;
  const pending: PendingEvent[] = [];
  const [arrivals, room] = [createNotifier(), createNotifier()];
  const read = async (groupSignal: AbortSignal) => {
    for await (const item of subscribeToStoredEvents({ client, after, signal: groupSignal })) {
      if (item.kind === "caughtUp") continue;
      const { event, position } = item;
      pending.push({ position, event: isOfLog(event) ? undefined : toAuditEvent(event, position) });
      arrivals.wake();
      while (pending.length >= MAX_PENDING && !groupSignal.aborted) await room.sleep(1_000, groupSignal);
    }
    if (!groupSignal.aborted) throw new Error("The event log ended the subscription.");
  };
  const add = async (batch: readonly PendingEvent[]) => {
    const usedEdge = edge ?? (await TreeEdge.read(readHashes, Number(checkpoint.leafCount)));
    // A failed batch leaves an edge that is not that of the checkpoint.
    edge = undefined;
    const events = batch.flatMap(({ event }) => event ?? []);
    checkpoint = await addToIndex(pool, checkpoint, usedEdge, events, batch.at(-1)?.position ?? checkpoint.position);
    edge = usedEdge;
    await onAdded(checkpoint.position, batch.length);
  };
  const write = async (groupSignal: AbortSignal) => {
    while (!groupSignal.aborted && (endPosition === undefined || checkpoint.position < endPosition)) {
      const batch = pending.splice(0, MAX_BATCH);
      // Leaf numbers have no gaps, so the index never skips an event.
      await divide(batch, { handle: add });
      room.wake();
      if (batch.length === 0) await arrivals.sleep(1_000, groupSignal);
      else if (batch.length < MAX_BATCH) await pause(BATCH_PAUSE_MS, groupSignal);
    }
  };
  await runTaskGroup(signal, [read, write]);
}

/** Creates a function that logs the progress of a long fill, at most every 10 seconds. */
function createProgressReporter(client: EventStoreDBClient, logger: Logger) {
  let reportedAt = performance.now();
  let eventCount = 0;
  return async (position: bigint, addedCount: number) => {
    eventCount += addedCount;
    const now = performance.now();
    if (now - reportedAt < PROGRESS_INTERVAL_MS) return;
    const eventsPerSecond = Math.round((eventCount * 1_000) / (now - reportedAt));
    [reportedAt, eventCount] = [now, 0];
    const logEnd = await readLogEnd(client);
    if (addedCount === MAX_BATCH)
      logger.info({ position: String(position), logEnd: String(logEnd), eventsPerSecond }, "filling the audit index");
  };
}
