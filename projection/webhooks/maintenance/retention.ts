import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";

/** Deletes the paces of endpoints that had no attempt for an hour. */
export async function deleteOldPaces(pool: pg.Pool): Promise<void> {
  await pool.query("DELETE FROM webhooks.endpoint_pace WHERE next_start_at < now() - interval '1 hour'");
}

/** Time for which deliveries, their attempts and the progress of replays are kept. Milliseconds. */
const RETENTION_MS = 30 * 24 * 60 * 60 * 1_000;

/**
 * Deletes the progress of replays that ended more than 30 days ago. The log contains their outcomes.
 *
 * @param now milliseconds since 1970
 */
export async function deleteOldReplays(pool: pg.Pool, now: number): Promise<void> {
  await pool.query("DELETE FROM webhooks.replay WHERE outcome IS NOT NULL AND updated_at < $1", [
    toInstant(now - RETENTION_MS),
  ]);
}

const MAX_BATCH_SIZE = 1_000;

/**
 * Deletes a batch of deliveries that are no longer pending and older than 30 days, with their attempts.
 *
 * @param now milliseconds since 1970
 * @returns true if more deliveries may need to be deleted
 */
export async function deleteOldDeliveries(pool: pg.Pool, now: number): Promise<boolean> {
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
