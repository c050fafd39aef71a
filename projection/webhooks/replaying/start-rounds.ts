import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { arrange, listGroups, type OrderableDelivery } from "../ordering/arrange.ts";
import { lockOrder } from "../ordering/lock.ts";

/** A new round of a finished delivery. */
export interface NewRound {
  deliveryId: string;
  /** Id of the event that requests the round. */
  causeId: string;
  /** Webhook body, created again from the event. */
  body: string;
}

/** Request that starts rounds. */
export interface RoundRequest {
  /** Endpoint of all deliveries. */
  endpointId: string;
  /** Log position of the request. A delivery processes each request only once. */
  position: bigint;
  correlationId: string;
  /** Statuses that a delivery may have. */
  statuses: readonly string[];
  traceparent?: string | null | undefined;
}

/** New status of a delivery: `skipped` if its endpoint is disabled, `cancelled` if it is revoked. */
export type RoundStatus = "pending" | "skipped" | "cancelled";

interface StartedRow extends OrderableDelivery {
  id: string;
  status: RoundStatus;
}

/**
 * SQL condition for a delivery `d` that a request may replay: its status is one of the request's statuses, and it has
 * not processed this request or a later one.
 */
export const buildReplayableSql = (statuses: string, position: string) =>
  `d.status = ANY (${statuses}::text[]) AND COALESCE(d.replay_position, -1) < ${position}`;

const START_ROUNDS_SQL = `
  WITH round AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS r (delivery_id, cause_id, body)
  ),
  started AS (
    UPDATE webhooks.delivery d
       SET status = CASE e.status WHEN 'active' THEN 'pending' WHEN 'disabled' THEN 'skipped' ELSE 'cancelled' END,
           next_attempt_at = CASE e.status WHEN 'active' THEN $4::timestamptz END,
           replay_position = $5, cause_id = round.cause_id, correlation_id = $6, updated_at = $4
      FROM round, ${READ_MODEL_SCHEMA}.webhook_endpoint e
     WHERE d.delivery_id = ANY ($1::uuid[]) AND d.delivery_id = round.delivery_id AND e.endpoint_id = d.endpoint_id
       AND ${buildReplayableSql("$8", "$5")}
    RETURNING d.delivery_id, d.endpoint_id, d.branch_id, d.attempt_count, d.status, d.event_revision,
              CASE WHEN e.ordering = 'appointment' AND d.event_stream LIKE 'appointment-%'
                   THEN substr(d.event_stream, 1 + length('appointment-'))::uuid END AS ordering_key
  ),
  queued AS (
    INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, branch_id, body, next_attempt_at,
      round_attempt_count, attempt_count, traceparent, ordering_key, event_revision, is_held)
    SELECT delivery_id, endpoint_id, branch_id, round.body, $4, 0, attempt_count, $7, ordering_key,
           CASE WHEN ordering_key IS NOT NULL THEN event_revision END, ordering_key IS NOT NULL
      FROM started JOIN round USING (delivery_id)
     WHERE status = 'pending'
  )
  SELECT delivery_id AS id, status, endpoint_id AS "endpointId", ordering_key AS "orderingKey" FROM started`;

/**
 * Starts rounds of deliveries, in the caller's transaction. Deliveries that the request may not replay stay unchanged.
 * First locks the order of deliveries to the endpoint, so the transaction must not have changed any deliveries.
 *
 * @param now milliseconds since 1970
 * @returns new status of each delivery whose round has started, by delivery id
 */
export async function startRounds(
  client: pg.ClientBase,
  rounds: readonly NewRound[],
  { endpointId, position, correlationId, statuses, traceparent }: RoundRequest,
  now: number,
): Promise<Map<string, RoundStatus>> {
  await lockOrder(client, [{ endpointId }]);
  const { rows } = await client.query<StartedRow>({
    name: "start rounds",
    text: START_ROUNDS_SQL,
    values: [
      rounds.map(({ deliveryId }) => deliveryId),
      rounds.map(({ causeId }) => causeId),
      rounds.map(({ body }) => body),
      ...[toInstant(now), position, correlationId, traceparent, statuses],
    ],
  });
  await arrange(client, listGroups(rows), now);
  return new Map(rows.map(({ id, status }) => [id, status]));
}
