import type pg from "pg";
import { deriveReplayRequestId } from "../../../shared/domain/events/ids.ts";
import { EventSchemaError } from "../../../shared/domain/events/stored-event.ts";
import { createWebhookBody } from "../../../shared/partner-api/create-webhook-body.ts";
import type { ReplayDeps } from "../matching/restore.ts";
import { type NewRound, startRounds } from "../matching/start-rounds.ts";
import {
  addFacts,
  createExpiredFact,
  createReplayCompletedFact,
  createReplayRequestedFact,
  createSkippedFact,
} from "../outbox/facts.ts";
import { inTransaction } from "../outbox/transaction.ts";
import { buildActiveEndpointSql, LANE_CONDITIONS } from "../scheduling/due.ts";
import { lockProgress, type ReplayProgress, writeProgress } from "./replay-progress.ts";
import { MAX_BATCH_SIZE, type SelectedDelivery, selectDeliveries } from "./select-deliveries.ts";
import type { UnfinishedReplay } from "./unfinished-replays.ts";

/**
 * Maximum number of deliveries of an endpoint that wait for a first attempt, or for an earlier delivery. A replay waits
 * until there are fewer, so it never fills the table of pending deliveries.
 */
const MAX_WAITING_DELIVERIES = 1_000;

/** Maximum number of concurrent reads of the log. */
const MAX_CONCURRENT_READS = 8;

/**
 * Result of a step: `started` if deliveries were queued, `ended` if the replay has ended, `waiting` if it has to wait,
 * and `taken` if another process works on it.
 */
export type ReplayStep = "started" | "ended" | "waiting" | "taken";

/**
 * Replays the next batch of deliveries in one transaction: starts their rounds, adds an event for each to the outbox,
 * and writes the progress. If the process dies, the next step starts with the same deliveries.
 *
 * @param now milliseconds since 1970
 * @throws {LogUnavailableError}
 * @throws {DifferentLogError} if an event is missing and the database was not built from this log
 */
export function continueReplay(deps: ReplayDeps, replay: UnfinishedReplay, now: number): Promise<ReplayStep> {
  return inTransaction(deps.pool, async (client) => {
    const progress = await lockProgress(client, replay.replayId, now);
    if (!progress) return "taken";
    if (!(await isActive(client, replay.endpointId))) {
      await endReplay(client, replay, { ...progress, outcome: "stopped" }, now);
      return "ended";
    }
    if (await hasManyWaiting(client, replay.endpointId)) {
      await writeProgress(client, replay.replayId, progress, now);
      return "waiting";
    }
    return replayBatch(deps, client, replay, progress, now);
  });
}

async function replayBatch(
  deps: ReplayDeps,
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

/** @returns number of deliveries whose round has started */
async function replayDeliveries(
  deps: ReplayDeps,
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  deliveries: readonly SelectedDelivery[],
  now: number,
): Promise<number> {
  if (deliveries.length === 0) return 0;
  const { replayId, requestId, correlationId } = replay;
  const bodies = await createBodies(deps, deliveries);
  const requests = deliveries.map((delivery) => {
    const causeId = deriveReplayRequestId(replayId, delivery.deliveryId);
    return { ...delivery, causeId, correlationId, replayId, requestId };
  });
  const rounds = requests.flatMap(({ deliveryId, causeId }): NewRound[] => {
    const body = bodies.get(deliveryId);
    return body === undefined ? [] : [{ deliveryId, causeId, body }];
  });
  const statuses = await startRounds(client, rounds, replay, now);
  const missingRequests = requests.filter(({ deliveryId }) => !bodies.has(deliveryId));
  if (missingRequests.length > 0) await markExpired(deps, client, replay, missingRequests, now);
  const startedRequests = requests.filter(({ deliveryId }) => statuses.has(deliveryId));
  await addFacts(
    client,
    startedRequests.map((request) => createReplayRequestedFact(request, now)),
  );
  // The later time makes the outbox append this event after the request.
  const skippedRequests = startedRequests.filter(({ deliveryId }) => statuses.get(deliveryId) === "skipped");
  await addFacts(
    client,
    skippedRequests.map((request) => createSkippedFact(request, now + 1)),
  );
  return startedRequests.length;
}

/** Creates the webhook bodies again. The result lacks deliveries whose event is missing or unreadable. */
async function createBodies(
  { log, logger }: ReplayDeps,
  deliveries: readonly SelectedDelivery[],
): Promise<Map<string, string>> {
  const bodies = new Map<string, string>();
  const remainingDeliveries = deliveries.values();
  const createRemainingBodies = async () => {
    for (const { deliveryId, eventId, eventStream: stream, eventRevision: revision } of remainingDeliveries) {
      const body = await createWebhookBody(log, { stream, revision }).catch((error: unknown) => {
        if (!(error instanceof EventSchemaError)) throw error;
        logger.error({ error, deliveryId }, "A delivery was not replayed, because its event is unreadable.");
      });
      if (body?.id === eventId) bodies.set(deliveryId, JSON.stringify(body));
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_READS }, createRemainingBodies));
  return bodies;
}

/** Records that deliveries cannot be replayed, and excludes them from the next batch. */
async function markExpired(
  { requireLog }: ReplayDeps,
  client: pg.ClientBase,
  { position, clinicId, environment, endpointId }: UnfinishedReplay,
  requests: readonly { deliveryId: string; causeId: string; correlationId: string }[],
  now: number,
): Promise<void> {
  await requireLog();
  const deliveryIds = requests.map(({ deliveryId }) => deliveryId);
  await client.query("UPDATE webhooks.delivery SET replay_position = $2 WHERE delivery_id = ANY ($1::uuid[])", [
    deliveryIds,
    position,
  ]);
  const context = { clinicId, environment, endpointId };
  const facts = requests.map(({ deliveryId, causeId: requestId, correlationId }) =>
    createExpiredFact({ ...context, deliveryId, requestId, correlationId }, now),
  );
  await addFacts(client, facts);
}

async function endReplay(
  client: pg.ClientBase,
  replay: UnfinishedReplay,
  progress: ReplayProgress,
  now: number,
): Promise<void> {
  await writeProgress(client, replay.replayId, progress, now);
  await addFacts(client, [createReplayCompletedFact(replay, progress, now)]);
}

async function isActive(client: pg.ClientBase, endpointId: string): Promise<boolean> {
  const { rowCount } = await client.query({
    name: "active endpoint",
    text: buildActiveEndpointSql("$1::uuid"),
    values: [endpointId],
  });
  return rowCount === 1;
}

async function hasManyWaiting(client: pg.ClientBase, endpointId: string): Promise<boolean> {
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
