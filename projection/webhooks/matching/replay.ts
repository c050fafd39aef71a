import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { createWebhookBody } from "../../../shared/partner-api/create-webhook-body.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { ReplayMessage } from "../../relay/message.ts";
import { arrange, listGroups } from "../ordering/arrange.ts";
import { lockOrder } from "../ordering/lock.ts";
import { addFacts, createSkippedFact, DELIVERY_ROUND_COLUMNS, type DeliveryRound } from "../outbox/facts.ts";
import { inTransaction } from "../outbox/transaction.ts";
import { type ReplayDeps, recordExpiry, restoreDelivery } from "./restore.ts";

interface ReplayedRow extends DeliveryRound {
  eventId: string;
}

/**
 * Result of a replay request.
 * - `pending`, `skipped` and `cancelled` are the delivery's new status.
 * - `expired`: The delivery cannot be replayed. An event was recorded.
 * - `ignored`: The request was processed before, or the delivery needs no replay.
 */
export type ReplayResult = "pending" | "skipped" | "cancelled" | "expired" | "ignored";

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
    await lockOrder(client, [row.endpointId]);
    const { rows } = await client.query<{ status: ReplayResult; endpointId: string; orderingKey: string | null }>({
      name: "start replay",
      text: START_ROUND_SQL,
      values: [deliveryId, request.position, requestId, correlationId, body, toInstant(now), request.traceparent],
    });
    await arrange(client, listGroups(rows), now);
    const status = rows[0]?.status ?? "ignored";
    if (status === "skipped") {
      const newRound = { ...row, causeId: requestId, correlationId, traceparent: request.traceparent };
      await addFacts(client, [createSkippedFact(newRound, now)]);
    }
    return status;
  });
}

const IS_REPLAYABLE_SQL = "d.status IN ('failed', 'skipped') AND COALESCE(d.replay_position, -1) < $2";

const START_ROUND_SQL = `
  WITH started AS (
    UPDATE webhooks.delivery d
       SET status = CASE e.status WHEN 'active' THEN 'pending' WHEN 'disabled' THEN 'skipped' ELSE 'cancelled' END,
           next_attempt_at = CASE e.status WHEN 'active' THEN $6::timestamptz END,
           replay_position = $2, cause_id = $3, correlation_id = $4, updated_at = $6
      FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
     WHERE d.delivery_id = $1 AND e.endpoint_id = d.endpoint_id AND ${IS_REPLAYABLE_SQL}
    RETURNING d.delivery_id, d.endpoint_id, d.branch_id, d.attempt_count, d.status, d.event_revision,
              CASE WHEN e.ordering = 'appointment' AND d.event_stream LIKE 'appointment-%'
                   THEN substr(d.event_stream, 1 + length('appointment-'))::uuid END AS ordering_key
  ),
  queued AS (
    INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, branch_id, body, next_attempt_at,
      round_attempt_count, attempt_count, traceparent, ordering_key, event_revision, is_held)
    SELECT delivery_id, endpoint_id, branch_id, $5, $6, 0, attempt_count, $7, ordering_key,
           CASE WHEN ordering_key IS NOT NULL THEN event_revision END, ordering_key IS NOT NULL
      FROM started WHERE status = 'pending'
  )
  SELECT status, endpoint_id AS "endpointId", ordering_key AS "orderingKey" FROM started`;

async function findReplayable(pool: pg.Pool, request: ReplayMessage): Promise<ReplayedRow | undefined> {
  const { rows } = await pool.query<ReplayedRow>({
    name: "replayable delivery",
    text: `SELECT ${DELIVERY_ROUND_COLUMNS}, d.event_id AS "eventId"
             FROM webhooks.delivery d WHERE d.delivery_id = $1 AND ${IS_REPLAYABLE_SQL}`,
    values: [request.deliveryId, request.position],
  });
  return rows[0];
}

/** Creates the webhook body from the stored event. @returns undefined if the log does not contain the event */
async function recreateBody(log: EventLog, row: ReplayedRow): Promise<string | undefined> {
  const body = await createWebhookBody(log, { stream: row.eventStream, revision: row.eventRevision });
  return body?.id === row.eventId ? JSON.stringify(body) : undefined;
}
