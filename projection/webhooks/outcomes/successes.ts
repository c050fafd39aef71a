import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { type FinishedAttempt, toAttemptColumns } from "./finished-attempt.ts";

/**
 * Writes the outcomes of successful attempts in one statement, so that the usual case takes one round trip. The
 * statement updates attempts and deliveries, and ends the failure periods of the endpoints.
 *
 * @param db pool, or the connection of a transaction
 * @param now milliseconds since 1970
 */
export async function writeSuccesses(
  db: pg.Pool | pg.ClientBase,
  outcomes: readonly FinishedAttempt[],
  now: number,
): Promise<void> {
  const { deliveryIds, attemptNumbers, durationsMs, statusCodes, bodies } = toAttemptColumns(outcomes);
  const endpointIds = new Set(outcomes.map(({ delivery }) => delivery.endpointId));
  await db.query({
    name: "write successes",
    text: `WITH o AS MATERIALIZED (
             SELECT * FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::integer[], $5::text[])
                AS o (delivery_id, number, duration_ms, status_code, answer)),
           attempts AS (
             UPDATE webhooks.attempt a
                SET duration_ms = o.duration_ms, status_code = o.status_code, error = NULL, answer = o.answer
               FROM o WHERE a.delivery_id = o.delivery_id AND a.number = o.number),
           well AS (
             DELETE FROM webhooks.failing_endpoint WHERE endpoint_id IN (
               SELECT endpoint_id FROM webhooks.failing_endpoint WHERE endpoint_id = ANY ($6::uuid[])
                ORDER BY endpoint_id FOR UPDATE)),
           ended AS (
             DELETE FROM webhooks.pending_delivery WHERE delivery_id = ANY ($1::uuid[])
             RETURNING delivery_id, attempt_count)
           UPDATE webhooks.delivery d
              SET status = 'delivered', attempt_count = ended.attempt_count, next_attempt_at = NULL, updated_at = $7
             FROM ended WHERE d.delivery_id = ended.delivery_id`,
    values: [deliveryIds, attemptNumbers, durationsMs, statusCodes, bodies, [...endpointIds], toInstant(now)],
  });
}
