import type pg from "pg";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { releaseForgottenDeliveries } from "./match/ordering.ts";
import {
  type ClosedStatus,
  closedStatuses,
  closeUnsendableDeliveries,
  type SweepResult,
  skipUnapprovedDeliveries,
} from "./record/close-deliveries.ts";
import { addToOutbox, createExpiryReportedEvent, type ExpiringSecret, inTransaction } from "./record/outbox.ts";
import { type PartContext, repeatForever } from "./record/retry-forever.ts";

interface MaintenanceOptions {
  pool: pg.Pool;
  /** Called with the number of pending deliveries that were closed without sending them. */
  onClosed?: ((status: ClosedStatus, deliveryCount: number) => void) | undefined;
  onOutboxEvents(): void;
  /** Milliseconds since 1970. */
  clock(): number;
}

const SWEEP_INTERVAL_MS = 1_000;
const SECRETS_INTERVAL_MS = 10 * 60_000;
const RETENTION_INTERVAL_MS = 10 * 60_000;

/**
 * Runs the background loops that close deliveries which may not be sent, report expiring secrets, repair held
 * deliveries and delete old rows, until the signal aborts.
 */
export async function runMaintenance(options: MaintenanceOptions, context: PartContext): Promise<void> {
  const { pool, clock, onOutboxEvents } = options;
  const { signal } = context;
  const reportClosed = ({ closedCounts, hasMore }: SweepResult) => {
    for (const status of closedStatuses) options.onClosed?.(status, closedCounts[status]);
    // Skipped deliveries are recorded as events.
    if (closedCounts.skipped > 0) onOutboxEvents();
    return hasMore;
  };
  const sweep = async () => reportClosed(await closeUnsendableDeliveries(pool, clock()));
  const reportSecrets = async () => {
    if ((await reportExpiringSecrets(pool, clock())) > 0) onOutboxEvents();
    return false;
  };
  // Each is a separate loop, so that one that fails does not keep the others from running.
  const retentionParts = {
    "unapproved deliveries": async () => reportClosed(await skipUnapprovedDeliveries(pool, clock())),
    "old paces": () => deleteOldPaces(pool),
    "forgotten deliveries": () => releaseForgottenDeliveries(pool, clock()),
    // The log contains these events, and the progress of replays that have ended.
    "old quarantined events": () => deleteOldRows(pool, "webhooks.quarantined_event WHERE since < $1", clock()),
    "old replays": () => deleteOldRows(pool, "webhooks.replay WHERE outcome IS NOT NULL AND updated_at < $1", clock()),
    "old deliveries": () => deleteOldDeliveries(pool, clock()),
  };
  await Promise.all([
    repeatForever("sweep", context, sweep, () => pause(SWEEP_INTERVAL_MS, signal)),
    repeatForever("secrets", context, reportSecrets, () => pause(SECRETS_INTERVAL_MS, signal)),
    ...Object.entries(retentionParts).map(([name, run]) =>
      repeatForever(name, context, run, () => pause(RETENTION_INTERVAL_MS, signal)),
    ),
  ]);
}

const REPORT_BEFORE_MS = 6 * 60 * 60 * 1_000;

const MAX_BATCH_SIZE = 1_000;

/**
 * Adds a `WebhookSecretExpiryReported` event to the outbox for each former secret that expires within six hours and was
 * not reported before, at most 1,000 per call, the earliest first.
 *
 * @param now milliseconds since 1970
 * @returns number of events that were added to the outbox
 */
export function reportExpiringSecrets(pool: pg.Pool, now: number): Promise<number> {
  return inTransaction(pool, async (client) => {
    const { rows } = await client.query<ExpiringSecret>({
      name: "expiring secrets",
      text: `SELECT e.endpoint_id AS "endpointId", e.clinic_id AS "clinicId", e.environment,
                    former->>'secretId' AS "secretId", former->>'expiresAt' AS "expiresAt",
                    former->>'rotationId' AS "rotationId", former->>'correlationId' AS "correlationId"
               FROM ${READ_MODEL_SCHEMA}.webhook_secret s
               JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint e USING (endpoint_id)
              CROSS JOIN LATERAL jsonb_array_elements(s.former_secrets) former
              WHERE former->>'isReported' = 'false' AND former->>'expiresAt' > $1 AND former->>'expiresAt' <= $2
              ORDER BY former->>'expiresAt'
              LIMIT ${MAX_BATCH_SIZE}`,
      values: [toInstant(now), toInstant(now + REPORT_BEFORE_MS)],
    });
    await addToOutbox(
      client,
      rows.map((row) => createExpiryReportedEvent(row, now)),
    );
    return rows.length;
  });
}

async function deleteOldPaces(pool: pg.Pool): Promise<false> {
  await pool.query("DELETE FROM webhooks.endpoint_pace WHERE next_start_at < now() - interval '1 hour'");
  return false;
}

/** Applies to deliveries, their attempts, the progress of replays, and events that could not be sent. */
const RETENTION_MS = 30 * 24 * 60 * 60 * 1_000;

/** @param rows table and condition; `$1` is the time before which rows are old */
async function deleteOldRows(pool: pg.Pool, rows: string, now: number): Promise<false> {
  await pool.query(`DELETE FROM ${rows}`, [toInstant(now - RETENTION_MS)]);
  return false;
}

/** @returns true if more deliveries may need to be deleted */
async function deleteOldDeliveries(pool: pg.Pool, now: number): Promise<boolean> {
  const { rowCount } = await pool.query({
    name: "delete old deliveries",
    text: `DELETE FROM webhooks.delivery WHERE delivery_id IN (
             SELECT delivery_id FROM webhooks.delivery
              WHERE created_at < $1 AND status <> 'pending'
              ORDER BY created_at
              LIMIT ${MAX_BATCH_SIZE} FOR UPDATE SKIP LOCKED)`,
    values: [toInstant(now - RETENTION_MS)],
  });
  return rowCount === MAX_BATCH_SIZE;
}
