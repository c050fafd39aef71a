import type pg from "pg";
import type { AppointmentEvent } from "../../shared/events/appointment.ts";
import type { Environment } from "../../shared/events/fields.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { toWebhookBody } from "../../shared/partner-api/webhook-body.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { toInstant } from "../../shared/time/rfc3339.ts";
import type { ReplayMessage } from "../relay/message.ts";
import { deliverySkipped, keepFacts } from "./facts.ts";
import { inTransaction } from "./transaction.ts";

interface ReplayedRow {
  endpoint_id: string;
  clinic_id: string;
  environment: Environment;
  event_id: string;
  event_stream: string;
  event_revision: bigint;
}

/** What came of a request to replay; `ignored`: it was followed already, or the delivery needs none. */
export type Replayed = "pending" | "skipped" | "cancelled" | "ignored";

/**
 * Follows a request to replay: a failed or skipped delivery starts a new round, with its body made anew from the
 * event in the log. Requests are followed in the log's order and once: the position of the last one is kept. Where
 * the endpoint is no longer active, the delivery is left out again, and the log is told so.
 *
 * @throws {LogUnavailable}
 */
export async function replay(
  deps: { pool: pg.Pool; log: EventLog; logger: Logger },
  request: ReplayMessage,
  now: number,
): Promise<Replayed> {
  const { pool, log, logger } = deps;
  const row = await replayable(pool, request);
  if (!row) {
    logger.warn({ deliveryId: request.deliveryId, request: request.requestId }, "nothing to replay");
    return "ignored";
  }
  const body = await rebuild(log, row);
  return inTransaction(pool, async (client) => {
    const { rows } = await client.query<{ status: Replayed }>({
      name: "start replay",
      text: START,
      values: [
        request.deliveryId,
        request.position,
        request.requestId,
        request.correlationId,
        body,
        toInstant(now),
      ],
    });
    const status = rows[0]?.status ?? "ignored";
    if (status === "skipped") {
      const { clinic_id: clinicId, environment, endpoint_id: endpointId } = row;
      const { deliveryId, requestId: causeId, correlationId } = request;
      const round = { deliveryId, endpointId, clinicId, environment, causeId, correlationId };
      await keepFacts(client, [deliverySkipped(round, now)]);
    }
    return status;
  });
}

const REPLAYABLE = "d.status IN ('failed', 'skipped') AND COALESCE(d.replay_position, -1) < $2";

const START = `
  UPDATE webhooks.delivery d
     SET status = CASE e.status WHEN 'active' THEN 'pending' WHEN 'disabled' THEN 'skipped' ELSE 'cancelled' END,
         next_attempt_at = CASE e.status WHEN 'active' THEN $6::timestamptz END,
         round_attempt_count = 0, lease_expires_at = NULL,
         replay_position = $2, cause_id = $3, correlation_id = $4, body = $5, updated_at = $6
    FROM read_model.webhook_endpoint e
   WHERE d.delivery_id = $1 AND e.endpoint_id = d.endpoint_id AND ${REPLAYABLE}
  RETURNING d.status`;

async function replayable(pool: pg.Pool, request: ReplayMessage): Promise<ReplayedRow | undefined> {
  const { rows } = await pool.query<ReplayedRow>({
    name: "replayable delivery",
    text: `SELECT endpoint_id, clinic_id, environment, event_id, event_stream, event_revision
             FROM webhooks.delivery d WHERE d.delivery_id = $1 AND ${REPLAYABLE}`,
    values: [request.deliveryId, request.position],
  });
  return rows[0];
}

/** The body from the stored event, by stream and revision. */
async function rebuild(log: EventLog, row: ReplayedRow): Promise<string> {
  const history = await log.read<AppointmentEvent>(row.event_stream, row.event_revision);
  const body = history.at(-1)?.id === row.event_id ? toWebhookBody(history) : undefined;
  if (!body)
    throw new Error(`the event of stream ${row.event_stream} at ${row.event_revision} is not in the log`);
  return JSON.stringify(body);
}
