import type pg from "pg";
import { pause } from "../../../shared/runtime/backoff.ts";
import { releaseForgottenDeliveries } from "../ordering/arrange.ts";
import { type PartContext, repeatForever } from "../outbox/retry-forever.ts";
import { reportExpiringSecrets } from "./expiring-secrets.ts";
import { deleteOldDeliveries, deleteOldPaces, deleteOldReplays } from "./retention.ts";
import {
  type ClosedStatus,
  closedStatuses,
  closeUnsendableDeliveries,
  type SweepResult,
  skipUnapprovedDeliveries,
} from "./sweep.ts";

export interface MaintenanceOptions {
  pool: pg.Pool;
  /** Called with the number of pending deliveries that were closed without sending them. */
  onClosed?: ((status: ClosedStatus, deliveryCount: number) => void) | undefined;
  /** Called after events were added to the outbox. */
  onFacts(): void;
  /** Milliseconds since 1970. */
  clock(): number;
}

/** Pauses of the background loops while no work is left. Milliseconds. */
const SWEEP_INTERVAL_MS = 1_000;
const SECRETS_INTERVAL_MS = 10 * 60_000;
const RETENTION_INTERVAL_MS = 10 * 60_000;

/**
 * Runs the background loops that close deliveries which may not be sent, report expiring secrets, repair held
 * deliveries and delete old rows, until the signal aborts.
 */
export async function runMaintenance(options: MaintenanceOptions, context: PartContext): Promise<void> {
  const { pool, clock, onFacts } = options;
  const { signal } = context;
  const reportClosed = ({ closedCounts, hasMore }: SweepResult) => {
    for (const status of closedStatuses) options.onClosed?.(status, closedCounts[status]);
    // Skipped deliveries are recorded as events.
    if (closedCounts.skipped > 0) onFacts();
    return hasMore;
  };
  const sweep = async () => reportClosed(await closeUnsendableDeliveries(pool, clock()));
  const reportSecrets = async () => {
    if ((await reportExpiringSecrets(pool, clock())) > 0) onFacts();
    return false;
  };
  const enforceRetention = async () => {
    const hasMoreToSkip = reportClosed(await skipUnapprovedDeliveries(pool, clock()));
    await deleteOldPaces(pool);
    const hasMoreToRelease = await releaseForgottenDeliveries(pool, clock());
    await deleteOldReplays(pool, clock());
    const hasOldDeliveries = await deleteOldDeliveries(pool, clock());
    return hasOldDeliveries || hasMoreToSkip || hasMoreToRelease;
  };
  await Promise.all([
    repeatForever("sweep", context, sweep, () => pause(SWEEP_INTERVAL_MS, signal)),
    repeatForever("secrets", context, reportSecrets, () => pause(SECRETS_INTERVAL_MS, signal)),
    repeatForever("retention", context, enforceRetention, () => pause(RETENTION_INTERVAL_MS, signal)),
  ]);
}
