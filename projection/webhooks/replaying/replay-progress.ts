import type pg from "pg";
import type { ReplayOutcome } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";

/** Progress of a replay. */
export interface ReplayProgress {
  /** Earliest time of creation of the remaining deliveries; null before the first batch. */
  nextCreatedAt: string | null;
  replayedCount: number;
  notReplayedCount: number;
  /** Null until the replay has ended. */
  outcome: ReplayOutcome | null;
}

/**
 * Locks the progress of a replay until the end of the transaction.
 *
 * @param now milliseconds since 1970
 * @returns undefined if another process works on the replay, or if it has ended
 */
export async function lockProgress(
  client: pg.ClientBase,
  replayId: string,
  now: number,
): Promise<ReplayProgress | undefined> {
  await client.query("INSERT INTO webhooks.replay (replay_id, updated_at) VALUES ($1, $2) ON CONFLICT DO NOTHING", [
    replayId,
    toInstant(now),
  ]);
  const { rows } = await client.query<ReplayProgress>({
    name: "lock replay",
    text: `SELECT next_created_at::text AS "nextCreatedAt", replayed_count AS "replayedCount",
                  not_replayed_count AS "notReplayedCount", outcome
             FROM webhooks.replay WHERE replay_id = $1 AND outcome IS NULL FOR UPDATE SKIP LOCKED`,
    values: [replayId],
  });
  return rows[0];
}

/** Writes the progress of a replay, in the transaction that locked it. @param now milliseconds since 1970 */
export async function writeProgress(
  client: pg.ClientBase,
  replayId: string,
  { nextCreatedAt, replayedCount, notReplayedCount, outcome }: ReplayProgress,
  now: number,
): Promise<void> {
  await client.query({
    name: "write replay",
    text: `UPDATE webhooks.replay SET next_created_at = $2, replayed_count = $3, not_replayed_count = $4, outcome = $5,
                  updated_at = $6 WHERE replay_id = $1`,
    values: [replayId, nextCreatedAt, replayedCount, notReplayedCount, outcome, toInstant(now)],
  });
}
