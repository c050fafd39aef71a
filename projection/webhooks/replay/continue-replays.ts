import type pg from "pg";
import type { ReplayOutcome } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { inTransaction } from "../../../shared/postgres/pool.ts";
import {
  classify,
  isLockTimeout,
  isPostgresUnavailable,
  isStatementTimeout,
} from "../../../shared/runtime/failures.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { divide } from "../../../shared/runtime/work.ts";
import { arrange, listGroups, type OrderableDelivery } from "../match/ordering.ts";
import { buildActiveEndpointSql } from "../schedule/due.ts";
import {
  findUnfinishedReplays,
  MAX_BATCH_SIZE,
  requeueDeliveries,
  type SelectedDelivery,
  selectDeliveries,
  type UnfinishedReplay,
} from "./select-deliveries.ts";

/**
 * Number of waiting deliveries at which the replays of an endpoint pause. A delivery waits for its first attempt, or
 * for an earlier delivery. So a replay adds deliveries no faster than the service attempts them.
 */
const MAX_WAITING_DELIVERIES = 1_000;

interface ReplayStepDeps {
  pool: pg.Pool;
  logger: Logger;
}

/**
 * Result of a step. `started`: a batch was queued, and more may follow. `ended`: the replay has ended. `waiting`: the
 * endpoint has too many waiting deliveries. `taken`: another process works on the replay, or it had already ended.
 */
type ReplayStep = "started" | "ended" | "waiting" | "taken";

/**
 * Replays up to one batch of deliveries for each application with unfinished replays. A replay that fails although
 * Postgres works does not hold up other replays.
 *
 * @param clock returns milliseconds since 1970
 * @returns true if a batch was replayed, so that more batches may remain
 */
export async function continueReplays(deps: ReplayStepDeps, clock: () => number): Promise<boolean> {
  const steps: ReplayStep[] = [];
  for (const replay of await findUnfinishedReplays(deps.pool)) {
    try {
      steps.push(await continueReplay(deps, replay, clock()));
    } catch (error) {
      // A locked row, a slow statement or an unknown error may concern only this replay.
      const kind = classify(error);
      const isUnavailable = kind === "server" && isPostgresUnavailable(error) && !isLockTimeout(error);
      if (kind === "stop" || isUnavailable) throw error;
      deps.logger.error({ error, replayId: replay.replayId }, "A replay failed. It is tried again after others.");
      await moveBack(deps.pool, replay.replayId, clock());
    }
  }
  return steps.some((step) => step === "started" || step === "ended");
}

/** Moves a replay to the end of the queue, which is ordered by the time of the last step. */
async function moveBack(pool: pg.Pool, replayId: string, now: number): Promise<void> {
  await pool.query(
    `INSERT INTO webhooks.replay (replay_id, updated_at) VALUES ($1, $2)
     ON CONFLICT (replay_id) DO UPDATE SET updated_at = $2`,
    [replayId, toInstant(now)],
  );
}

interface StepResult {
  step: ReplayStep;
  requeued?: OrderableDelivery[];
}

/**
 * Replays the next batch of deliveries in one transaction. If the process dies, the next step starts with the same
 * deliveries.
 *
 * @param now milliseconds since 1970
 */
export async function continueReplay(deps: ReplayStepDeps, replay: UnfinishedReplay, now: number): Promise<ReplayStep> {
  const { step, requeued = [] } = await inTransaction(deps.pool, async (client): Promise<StepResult> => {
    const progress = await lockProgress(client, replay.replayId, now);
    if (!progress) return { step: "taken" };
    if (!(await isEndpointActive(client, replay.endpointId))) {
      await recordProcessed(client, replay, replay.deliveryIds ?? []);
      await writeProgress(client, replay.replayId, { ...progress, outcome: "stopped" }, now);
      return { step: "ended" };
    }
    if (await hasManyWaitingDeliveries(client, replay.endpointId)) {
      await writeProgress(client, replay.replayId, progress, now);
      return { step: "waiting" };
    }
    return replayBatch(deps, client, replay, progress, now);
  });
  await arrange(deps.pool, listGroups(requeued), now);
  return step;
}

async function replayBatch(
  deps: ReplayStepDeps,
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  progress: ReplayProgress,
  now: number,
): Promise<StepResult> {
  const deliveries = await selectDeliveries(client, replay, progress.nextCreatedAt);
  const requeued = await requeueAll(deps, client, replay, deliveries, now);
  // Ids without a delivery that can be replayed count, too.
  const selectedCount = replay.deliveryIds?.length ?? deliveries.length;
  const hasMore = !replay.deliveryIds && deliveries.length === MAX_BATCH_SIZE;
  const nextProgress: ReplayProgress = {
    nextCreatedAt: deliveries.at(-1)?.createdAt ?? progress.nextCreatedAt,
    replayedCount: progress.replayedCount + requeued.length,
    notReplayedCount: progress.notReplayedCount + selectedCount - requeued.length,
    outcome: hasMore ? null : "completed",
  };
  await writeProgress(client, replay.replayId, nextProgress, now);
  return { step: hasMore ? "started" : "ended", requeued };
}

/** Queues deliveries again. A delivery that Postgres refuses is excluded from the replay. */
async function requeueAll(
  { logger }: ReplayStepDeps,
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  deliveries: readonly SelectedDelivery[],
  now: number,
): Promise<OrderableDelivery[]> {
  const requeued: OrderableDelivery[] = [];
  await divide(deliveries, {
    async handle(part) {
      await client.query("SAVEPOINT requeueing");
      try {
        requeued.push(...(await requeueDeliveries(client, part, replay, now)));
      } catch (error) {
        await client.query("ROLLBACK TO requeueing").catch(() => undefined);
        throw error;
      }
    },
    async setAside({ deliveryId }, error) {
      if (isStatementTimeout(error)) throw error;
      logger.error(
        { error, deliveryId, replayId: replay.replayId },
        "A delivery was not replayed, because it cannot be stored.",
      );
      await recordProcessed(client, replay, [deliveryId]);
    },
  });
  return requeued;
}

/** Records that this replay has processed the deliveries, so that it does not select them again. */
async function recordProcessed(
  client: pg.ClientBase,
  { endpointId, position }: UnfinishedReplay,
  deliveryIds: readonly string[],
): Promise<void> {
  await client.query(
    `UPDATE webhooks.delivery SET replay_position = GREATEST(replay_position, $3)
      WHERE delivery_id = ANY ($1::uuid[]) AND endpoint_id = $2`,
    [deliveryIds, endpointId, position],
  );
}

async function isEndpointActive(client: pg.ClientBase, endpointId: string): Promise<boolean> {
  const { rowCount } = await client.query({
    name: "active endpoint",
    text: buildActiveEndpointSql("$1::uuid"),
    values: [endpointId],
  });
  return rowCount === 1;
}

async function hasManyWaitingDeliveries(client: pg.ClientBase, endpointId: string): Promise<boolean> {
  const { rowCount } = await client.query({
    name: "waiting deliveries",
    text: `SELECT FROM (
             (SELECT FROM webhooks.pending_delivery
               WHERE endpoint_id = $1 AND NOT is_blocked AND failed_attempt_count = 0 LIMIT ${MAX_WAITING_DELIVERIES})
             UNION ALL
             (SELECT FROM webhooks.pending_delivery
               WHERE endpoint_id = $1 AND is_blocked LIMIT ${MAX_WAITING_DELIVERIES})
           ) waiting LIMIT ${MAX_WAITING_DELIVERIES}`,
    values: [endpointId],
  });
  return rowCount === MAX_WAITING_DELIVERIES;
}

interface ReplayProgress {
  /** Time of creation at which the next batch starts. Null before the first batch. */
  nextCreatedAt: string | null;
  replayedCount: number;
  notReplayedCount: number;
  /** Null until the replay has ended. */
  outcome: ReplayOutcome | null;
}

/**
 * Locks the progress of a replay until the end of the transaction.
 *
 * @returns undefined if another process works on the replay, or if the replay has ended
 */
async function lockProgress(client: pg.ClientBase, replayId: string, now: number): Promise<ReplayProgress | undefined> {
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

/** Writes the progress of a replay. Must run in the transaction that locked the progress. */
async function writeProgress(
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
