import type pg from "pg";
import type { ReplayMessage } from "../../relay/message.ts";
import { addFacts, createSkippedFact, DELIVERY_ROUND_COLUMNS } from "../outbox/facts.ts";
import { inTransaction } from "../outbox/transaction.ts";
import { type ReplayedDelivery, recreateBody } from "./recreate-body.ts";
import { type ReplayDeps, recordExpiry, restoreDelivery } from "./restore-delivery.ts";
import { buildReplayableSql, type RoundStatus, startRounds } from "./start-rounds.ts";

/**
 * Result of a replay request.
 * - `pending`, `skipped` and `cancelled` are the delivery's new status.
 * - `expired`: The delivery cannot be replayed. An event was recorded.
 * - `ignored`: The request was processed before, or the delivery needs no replay.
 */
export type ReplayResult = RoundStatus | "expired" | "ignored";

/**
 * Processes a replay request. A failed or skipped delivery starts a new round. The body is created again from the event
 * in the log. A deleted delivery is restored first. If the endpoint is disabled, the delivery is skipped, and an event
 * is recorded. The delivery stores the log position of its latest request, so each request is processed only once. If
 * the endpoint gets the events of an appointment in order, later deliveries of the appointment are held.
 *
 * @throws {LogUnavailableError}
 * @throws {EventSchemaError} if the event or an earlier event of its stream is unreadable
 */
export async function replayDelivery(deps: ReplayDeps, request: ReplayMessage, now: number): Promise<ReplayResult> {
  const { pool, log, logger } = deps;
  const { deliveryId, requestId, correlationId } = request;
  let row = await findReplayable(pool, request);
  if (!row) {
    const restoreResult = await restoreDelivery(deps, request, now);
    if (restoreResult === "expired") return "expired";
    if (restoreResult === "restored") row = await findReplayable(pool, request);
  }
  if (!row) {
    logger.warn(
      { deliveryId, request: requestId },
      "A replay request was ignored, because the delivery needs no replay or the request was processed before.",
    );
    return "ignored";
  }
  const body = await recreateBody(log, row);
  if (body === undefined) {
    await recordExpiry(deps, request, now);
    return "expired";
  }
  return inTransaction(pool, async (client) => {
    const round = { deliveryId, causeId: requestId, body };
    const statuses = await startRounds(client, [round], { ...request, statuses: REPLAYABLE_STATUSES }, now);
    const status = statuses.get(deliveryId) ?? "ignored";
    if (status === "skipped") {
      const newRound = { ...row, causeId: requestId, correlationId, traceparent: request.traceparent };
      await addFacts(client, [createSkippedFact(newRound, now)]);
    }
    return status;
  });
}

/** Statuses of deliveries that a partner's request for one delivery may replay. */
const REPLAYABLE_STATUSES = ["failed", "skipped"];

async function findReplayable(pool: pg.Pool, request: ReplayMessage): Promise<ReplayedDelivery | undefined> {
  const { rows } = await pool.query<ReplayedDelivery>({
    name: "replayable delivery",
    text: `SELECT ${DELIVERY_ROUND_COLUMNS}, d.event_id AS "eventId"
             FROM webhooks.delivery d WHERE d.delivery_id = $1 AND ${buildReplayableSql("$3", "$2")}`,
    values: [request.deliveryId, request.position, REPLAYABLE_STATUSES],
  });
  return rows[0];
}
