import type pg from "pg";
import { deriveReplayRequestId } from "../../../shared/domain/events/ids.ts";
import type { ReplayOutcome } from "../../../shared/domain/events/partner.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import {
  isLockTimeout,
  isPostgresUnavailable,
  isStatementTimeout,
  isValueRefused,
} from "../../../shared/postgres/unavailable.ts";
import { lockOrder } from "../match/ordering.ts";
import {
  addToOutbox,
  createDeliverySkippedEvent,
  createReplayCompletedEvent,
  createReplayRequestedEvent,
  inTransaction,
  type ReplayedRound,
} from "../record/outbox.ts";
import { buildActiveEndpointSql, LANE_CONDITIONS } from "../schedule/due.ts";
import type { ReplayDeps } from "./replay-delivery.ts";
import {
  findUnfinishedReplays,
  MAX_BATCH_SIZE,
  type NewRound,
  recreateBody,
  type SelectedDelivery,
  selectDeliveries,
  startRounds,
  type UnfinishedReplay,
} from "./select-deliveries.ts";

/**
 * Maximum number of deliveries of an endpoint that wait for a first attempt, or for an earlier delivery. A replay waits
 * until there are fewer, so it adds deliveries no faster than the service attempts them.
 */
const MAX_WAITING_DELIVERIES = 1_000;

type ReplayStepDeps = Pick<ReplayDeps, "pool" | "logger">;

/**
 * Result of a step: `started` if deliveries were queued, `ended` if the replay has ended, `waiting` if it has to wait,
 * and `taken` if another process works on it, or if it ended before.
 */
type ReplayStep = "started" | "ended" | "waiting" | "taken";

/**
 * Replays one batch of each application that has an unfinished replay. A replay that fails does not hold up the others.
 *
 * @param clock returns milliseconds since 1970
 * @returns true if a batch was replayed, so that events were added to the outbox and more batches may remain
 */
export async function continueReplays(deps: ReplayStepDeps, clock: () => number): Promise<boolean> {
  const steps: ReplayStep[] = [];
  for (const replay of await findUnfinishedReplays(deps.pool)) {
    try {
      steps.push(await continueReplay(deps, replay, clock()));
    } catch (error) {
      // A locked row or a slow statement may concern only this replay.
      if (isPostgresUnavailable(error) && !isLockTimeout(error) && !isStatementTimeout(error)) throw error;
      deps.logger.error({ error, replayId: replay.replayId }, "A replay failed. It is tried again after others.");
      await moveBack(deps.pool, replay.replayId, clock());
    }
  }
  return steps.some((step) => step === "started" || step === "ended");
}

/** The replay that was worked on longest ago comes first. */
async function moveBack(pool: pg.Pool, replayId: string, now: number): Promise<void> {
  await pool.query(
    `INSERT INTO webhooks.replay (replay_id, updated_at) VALUES ($1, $2)
     ON CONFLICT (replay_id) DO UPDATE SET updated_at = $2`,
    [replayId, toInstant(now)],
  );
}

/**
 * Replays the next batch of deliveries in one transaction. If the process dies, the next step starts with the same
 * deliveries.
 *
 * @param now milliseconds since 1970
 */
export function continueReplay(deps: ReplayStepDeps, replay: UnfinishedReplay, now: number): Promise<ReplayStep> {
  return inTransaction(deps.pool, async (client) => {
    const progress = await lockProgress(client, replay.replayId, now);
    if (!progress) return "taken";
    if (!(await isEndpointActive(client, replay.endpointId))) {
      await endReplay(client, replay, { ...progress, outcome: "stopped" }, now);
      return "ended";
    }
    if (await hasManyWaitingDeliveries(client, replay.endpointId)) {
      await writeProgress(client, replay.replayId, progress, now);
      return "waiting";
    }
    return replayBatch(deps, client, replay, progress, now);
  });
}

async function replayBatch(
  deps: ReplayStepDeps,
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  progress: ReplayProgress,
  now: number,
): Promise<ReplayStep> {
  const deliveries = await selectDeliveries(client, replay, progress.nextCreatedAt);
  const replayedCount = await replayDeliveries(deps, client, replay, deliveries, now);
  // Ids without a delivery that can be replayed count, too.
  const selectedCount = replay.deliveryIds?.length ?? deliveries.length;
  const nextProgress = {
    nextCreatedAt: deliveries.at(-1)?.createdAt ?? progress.nextCreatedAt,
    replayedCount: progress.replayedCount + replayedCount,
    notReplayedCount: progress.notReplayedCount + selectedCount - replayedCount,
    outcome: null,
  };
  if (!replay.deliveryIds && deliveries.length === MAX_BATCH_SIZE) {
    await writeProgress(client, replay.replayId, nextProgress, now);
    return "started";
  }
  await endReplay(client, replay, { ...nextProgress, outcome: "completed" }, now);
  return "ended";
}

async function replayDeliveries(
  deps: ReplayStepDeps,
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  deliveries: readonly SelectedDelivery[],
  now: number,
): Promise<number> {
  if (deliveries.length === 0) return 0;
  const { replayId, requestId, correlationId } = replay;
  const rounds = deliveries.flatMap((delivery): RequestedRound[] => {
    const body = recreateBody(delivery);
    const causeId = deriveReplayRequestId(replayId, delivery.deliveryId);
    return body === undefined ? [] : [{ ...delivery, causeId, correlationId, replayId, requestId, body }];
  });
  await lockOrder(client, [replay]);
  const startedCount = await startOrDivide(deps, client, replay, rounds, now);
  const excludedIds = deliveries.filter(({ event }) => event === null).map(({ deliveryId }) => deliveryId);
  if (excludedIds.length > 0) {
    deps.logger.error({ replayId, deliveryIds: excludedIds }, "The read models lack the events of deliveries.");
    await excludeDeliveries(client, replay, excludedIds);
  }
  return startedCount;
}

type RequestedRound = ReplayedRound & NewRound;

/**
 * Starts rounds and adds their events to the outbox. If Postgres refuses a value or the statement takes too long, starts
 * each half separately. A single delivery with a refused value is excluded from the replay.
 *
 * @returns number of started rounds
 */
async function startOrDivide(
  deps: ReplayStepDeps,
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  rounds: readonly RequestedRound[],
  now: number,
): Promise<number> {
  const [first] = rounds;
  if (!first) return 0;
  await client.query("SAVEPOINT rounds");
  try {
    return await startRequestedRounds(client, replay, rounds, now);
  } catch (error) {
    if (!isValueRefused(error) && !(isStatementTimeout(error) && rounds.length > 1)) throw error;
    await client.query("ROLLBACK TO rounds");
    if (rounds.length === 1) {
      const { deliveryId, replayId } = first;
      deps.logger.error({ error, deliveryId, replayId }, "A delivery was not replayed, because it cannot be stored.");
      await excludeDeliveries(client, replay, [deliveryId]);
      return 0;
    }
    const middle = Math.ceil(rounds.length / 2);
    const startedCount = await startOrDivide(deps, client, replay, rounds.slice(0, middle), now);
    return startedCount + (await startOrDivide(deps, client, replay, rounds.slice(middle), now));
  }
}

async function startRequestedRounds(
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  rounds: readonly RequestedRound[],
  now: number,
): Promise<number> {
  const statuses = await startRounds(client, rounds, replay, now);
  const startedRounds = rounds.filter(({ deliveryId }) => statuses.has(deliveryId));
  const skippedRounds = startedRounds.filter(({ deliveryId }) => statuses.get(deliveryId) === "skipped");
  await addToOutbox(client, [
    ...startedRounds.map((round) => createReplayRequestedEvent(round, now)),
    // The later time makes the outbox append this event after the request.
    ...skippedRounds.map((round) => createDeliverySkippedEvent(round, now + 1)),
  ]);
  return startedRounds.length;
}

async function excludeDeliveries(
  client: pg.ClientBase,
  { position }: UnfinishedReplay,
  deliveryIds: readonly string[],
): Promise<void> {
  await client.query("UPDATE webhooks.delivery SET replay_position = $2 WHERE delivery_id = ANY ($1::uuid[])", [
    deliveryIds,
    position,
  ]);
}

async function endReplay(
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  progress: ReplayProgress,
  now: number,
): Promise<void> {
  await writeProgress(client, replay.replayId, progress, now);
  await addToOutbox(client, [createReplayCompletedEvent(replay, progress, now)]);
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
             (SELECT FROM webhooks.pending_delivery WHERE endpoint_id = $1 AND ${LANE_CONDITIONS.first}
               LIMIT ${MAX_WAITING_DELIVERIES})
             UNION ALL
             (SELECT FROM webhooks.pending_delivery WHERE endpoint_id = $1 AND is_held LIMIT ${MAX_WAITING_DELIVERIES})
           ) waiting LIMIT ${MAX_WAITING_DELIVERIES}`,
    values: [endpointId],
  });
  return rowCount === MAX_WAITING_DELIVERIES;
}

interface ReplayProgress {
  /** Null before the first batch. */
  nextCreatedAt: string | null;
  replayedCount: number;
  notReplayedCount: number;
  /** Null until the replay has ended. */
  outcome: ReplayOutcome | null;
}

/**
 * Locks until the end of the transaction.
 * @returns undefined if another process works on the replay, or if it has ended
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

/** Must run in the transaction that locked the progress. */
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
