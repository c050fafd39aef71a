import type pg from "pg";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { type Loop, repeat } from "../../shared/runtime/work.ts";
import { arrangeForgottenDeliveries } from "./match/ordering.ts";
import {
  type ClosedStatus,
  closedStatuses,
  closeUnsendableDeliveries,
  type SweepResult,
  skipUnapprovedDeliveries,
} from "./record/close-deliveries.ts";
import type { DueEndpoint } from "./schedule/schedule.ts";

interface MaintenanceOptions {
  pool: pg.Pool;
  /** Called with the number of pending deliveries that were closed without sending them. */
  onClosed?: ((status: ClosedStatus, deliveryCount: number) => void) | undefined;
  /** Called with endpoints whose deliveries were released. */
  onDue(endpoints: readonly DueEndpoint[]): void;
  createLoop(name: string): Loop;
  /** Milliseconds since 1970. */
  clock(): number;
}

const SWEEP_INTERVAL_MS = 1_000;
/**
 * Minimum pause after a repair, as a multiple of the repair's duration. The duration grows with the number of blocked
 * deliveries.
 */
const REPAIR_PAUSE_FACTOR = 20;
const RETENTION_INTERVAL_MS = 10 * 60_000;

/**
 * Runs the background loops that close deliveries which may not be sent, repair the order of deliveries and delete old
 * rows, until the signal aborts.
 */
export async function runMaintenance(options: MaintenanceOptions, signal: AbortSignal): Promise<void> {
  const { pool, clock, onDue, createLoop } = options;
  const reportClosed = ({ closedCounts, hasMore }: SweepResult) => {
    for (const status of closedStatuses) options.onClosed?.(status, closedCounts[status]);
    return hasMore;
  };
  const sweep = async () => reportClosed(await closeUnsendableDeliveries(pool, clock()));
  let repairMs = 0;
  const repair = async () => {
    const startedAt = performance.now();
    onDue(await arrangeForgottenDeliveries(pool, clock()));
    repairMs = performance.now() - startedAt;
  };
  // Each is a separate loop, so that one that fails does not keep the others from running.
  const retentionParts = {
    "unapproved deliveries": async () => reportClosed(await skipUnapprovedDeliveries(pool, clock())),
    "old rate limits": () => deleteOldRows(pool, "webhooks.endpoint_rate_limit WHERE next_start_at < $1", clock()),
    // If relay and dispatcher end at the same moment, neither deletes the record.
    "old late events": () =>
      deleteOldRows(
        pool,
        "webhooks.late_event WHERE since < $1 OR (NOT needs_deliveries AND NOT needs_message)",
        clock(),
      ),
    // The log contains the progress of replays that have ended.
    "old replays": () => deleteOldRows(pool, "webhooks.replay WHERE next_try_at IS NULL AND updated_at < $1", clock()),
    "old deliveries": () => deleteOldDeliveries(pool, clock()),
  };
  await Promise.all([
    repeat(createLoop("sweep"), sweep, () => pause(SWEEP_INTERVAL_MS, signal)),
    repeat(createLoop("repair"), repair, () =>
      pause(Math.max(SWEEP_INTERVAL_MS, REPAIR_PAUSE_FACTOR * repairMs), signal),
    ),
    ...Object.entries(retentionParts).map(([name, run]) =>
      repeat(createLoop(name), run, () => pause(RETENTION_INTERVAL_MS, signal)),
    ),
  ]);
}

const MAX_BATCH_SIZE = 1_000;

/**
 * Time for which finished deliveries, their attempts, the progress of replays, rate limits, and events that could not
 * be sent are kept.
 */
const RETENTION_MS = 30 * 24 * 60 * 60 * 1_000;

/** @param rows table and condition; `$1` is the time before which rows are old */
async function deleteOldRows(pool: pg.Pool, rows: string, now: number): Promise<void> {
  await pool.query(`DELETE FROM ${rows}`, [toInstant(now - RETENTION_MS)]);
}

/** Time for which a finished delivery can be replayed, even if it is older than the retention time. */
const REPLAYABLE_MS = 7 * 24 * 60 * 60 * 1_000;

/** @returns true if more deliveries may need to be deleted */
async function deleteOldDeliveries(pool: pg.Pool, now: number): Promise<boolean> {
  const { rowCount } = await pool.query({
    name: "delete old deliveries",
    text: `DELETE FROM webhooks.delivery WHERE delivery_id IN (
             SELECT delivery_id FROM webhooks.delivery
              WHERE created_at < $1 AND updated_at < $2 AND status <> 'pending'
              ORDER BY created_at
              LIMIT ${MAX_BATCH_SIZE} FOR UPDATE SKIP LOCKED)`,
    values: [toInstant(now - RETENTION_MS), toInstant(now - REPLAYABLE_MS)],
  });
  return rowCount === MAX_BATCH_SIZE;
}
