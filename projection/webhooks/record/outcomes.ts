import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { listGroups, lockOrder, type OrderedGroup, releaseNext } from "../match/ordering.ts";
import type { DueEndpoint } from "../schedule/due.ts";
import type { FinishedAttempt } from "../send/attempt-delivery.ts";
import type { ClaimedDelivery } from "../send/claim.ts";
import { deleteFailurePeriods, type FailingEndpoints, trackFailingEndpoints } from "./failing-endpoints.ts";
import {
  addToOutbox,
  createDeliveryFailedEvent,
  createEndpointDisabledEvent,
  createFailureReportedEvent,
  inTransaction,
  type OutboxEvent,
} from "./outbox.ts";

interface WrittenOutcomes {
  outboxEventCount: number;
  /** Endpoints with a delivery that became due because the delivery before it has ended. */
  releasedEndpoints: DueEndpoint[];
}

/**
 * Writes the outcomes of attempts in one transaction: the attempts, the status and next due time of the deliveries, and
 * events for the outbox. If the delivery has been leased again since the attempt, only a success changes the delivery.
 * Releases the deliveries that were held because of a delivery that has ended.
 */
export async function writeOutcomes(
  pool: pg.Pool,
  outcomes: readonly FinishedAttempt[],
  now: number,
): Promise<WrittenOutcomes> {
  const groups = listGroups(outcomes.map(({ delivery }) => delivery));
  const isSuccess = outcomes.every(({ verdict }) => verdict.status === "delivered");
  if (isSuccess && groups.length === 0) {
    await writeSuccesses(pool, outcomes, now);
    return { outboxEventCount: 0, releasedEndpoints: [] };
  }
  return inTransaction(pool, async (client) => {
    await lockOrder(client, groups);
    let outboxEventCount = 0;
    if (isSuccess) await writeSuccesses(client, outcomes, now);
    else outboxEventCount = await writeWithFailures(client, outcomes, now);
    return { outboxEventCount, releasedEndpoints: await releaseNext(client, listEndedGroups(outcomes), now) };
  });
}

function listEndedGroups(outcomes: readonly FinishedAttempt[]): OrderedGroup[] {
  return listGroups(outcomes.flatMap(({ delivery, verdict }) => (verdict.status === "pending" ? [] : [delivery])));
}

async function writeWithFailures(
  client: pg.ClientBase,
  outcomes: readonly FinishedAttempt[],
  now: number,
): Promise<number> {
  await writeAttempts(client, outcomes);
  const movedIds = await updateDeliveries(client, outcomes, now);
  const outboxEvents: OutboxEvent[] = [];
  for (const { delivery, verdict } of outcomes) {
    if (verdict.status !== "failed") continue;
    if (movedIds.has(delivery.deliveryId))
      outboxEvents.push(createDeliveryFailedEvent(delivery, delivery.attemptNumber, now));
    if (verdict.isGone) outboxEvents.push(createEndpointDisabledEvent(delivery, "gone", now));
  }
  outboxEvents.push(...createEndpointEvents(outcomes, await trackFailingEndpoints(client, outcomes, now), now));
  await deleteFailurePeriods(client, listDisabledEndpointIds(outboxEvents));
  await addToOutbox(client, outboxEvents);
  return outboxEvents.length;
}

function createEndpointEvents(
  outcomes: readonly FinishedAttempt[],
  { disableIds, reports }: FailingEndpoints,
  now: number,
): OutboxEvent[] {
  const lastDeliveries = new Map(outcomes.map(({ delivery }) => [delivery.endpointId, delivery]));
  return [...lastDeliveries].flatMap(([endpointId, delivery]) => {
    if (disableIds.has(endpointId)) return [createEndpointDisabledEvent(delivery, "no_success", now)];
    const failurePeriod = reports.get(endpointId);
    return failurePeriod ? [createFailureReportedEvent(delivery, failurePeriod, now)] : [];
  });
}

function listDisabledEndpointIds(outboxEvents: readonly OutboxEvent[]): string[] {
  return outboxEvents.flatMap(({ event }) => (event.type === "WebhookEndpointDisabled" ? [event.data.endpointId] : []));
}

async function writeAttempts(client: pg.ClientBase, outcomes: readonly FinishedAttempt[]): Promise<void> {
  const { deliveryIds, attemptNumbers, durationsMs, statusCodes, bodies } = toAttemptColumns(outcomes);
  await client.query({
    name: "write attempts",
    text: `UPDATE webhooks.attempt a
              SET duration_ms = o.duration_ms, status_code = o.status_code, error = o.error, answer = o.answer
             FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::integer[], $5::text[], $6::text[])
               AS o (delivery_id, number, duration_ms, status_code, error, answer)
            WHERE a.delivery_id = o.delivery_id AND a.number = o.number`,
    values: [deliveryIds, attemptNumbers, durationsMs, statusCodes, outcomes.map(({ result }) => result.error), bodies],
  });
}

const MOVE_DELIVERIES_SQL = `
  WITH o AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::timestamptz[])
               AS o (delivery_id, number, status, next_attempt_at)
  ),
  retried AS (
    UPDATE webhooks.pending_delivery p
       SET next_attempt_at = o.next_attempt_at, round_attempt_count = p.round_attempt_count + 1, lease_expires_at = NULL
      FROM o
     WHERE p.delivery_id = ANY ($1) AND p.delivery_id = o.delivery_id AND p.attempt_count = o.number
       AND o.status = 'pending'
    RETURNING p.delivery_id, p.attempt_count, o.status, o.next_attempt_at
  ),
  ended AS (
    DELETE FROM webhooks.pending_delivery p
     USING o
     WHERE p.delivery_id = ANY ($1) AND p.delivery_id = o.delivery_id
       AND (o.status = 'delivered' OR (o.status = 'failed' AND p.attempt_count = o.number))
    RETURNING p.delivery_id, p.attempt_count, o.status, o.next_attempt_at
  )
  UPDATE webhooks.delivery d
     SET status = moved.status, attempt_count = moved.attempt_count, next_attempt_at = moved.next_attempt_at,
         updated_at = $5
    FROM (SELECT * FROM retried UNION ALL SELECT * FROM ended) moved
   WHERE d.delivery_id = moved.delivery_id
  RETURNING d.delivery_id`;

async function updateDeliveries(
  client: pg.ClientBase,
  outcomes: readonly FinishedAttempt[],
  now: number,
): Promise<Set<string>> {
  const { rows } = await client.query<{ delivery_id: string }>({
    name: "move deliveries",
    text: MOVE_DELIVERIES_SQL,
    values: [
      outcomes.map(({ delivery }) => delivery.deliveryId),
      outcomes.map(({ delivery }) => delivery.attemptNumber),
      outcomes.map(({ verdict }) => verdict.status),
      outcomes.map(({ verdict }) => (verdict.status === "pending" ? toInstant(verdict.nextAttemptAt) : null)),
      toInstant(now),
    ],
  });
  return new Set(rows.map(({ delivery_id }) => delivery_id));
}

/**
 * Returns the ids of the deliveries whose outcomes can be written now, because no other transaction has locked the
 * delivery or the failure period of its endpoint.
 */
export async function findUnlocked(pool: pg.Pool, outcomes: readonly FinishedAttempt[]): Promise<Set<string>> {
  const { rows } = await pool.query<{ id: string }>({
    name: "unlocked outcomes",
    text: `WITH unlocked AS (
             SELECT p.delivery_id FROM webhooks.pending_delivery p JOIN webhooks.delivery d USING (delivery_id)
              WHERE p.delivery_id = ANY ($1::uuid[]) FOR UPDATE SKIP LOCKED),
           unlocked_endpoint AS (
             SELECT endpoint_id FROM webhooks.failing_endpoint
              WHERE endpoint_id = ANY ($2::uuid[]) FOR UPDATE SKIP LOCKED)
           SELECT o.id FROM unnest($1::uuid[], $2::uuid[]) AS o (id, endpoint_id)
            WHERE (o.id IN (SELECT delivery_id FROM unlocked)
                   OR NOT EXISTS (SELECT FROM webhooks.pending_delivery WHERE delivery_id = o.id))
              AND (o.endpoint_id IN (SELECT endpoint_id FROM unlocked_endpoint)
                   OR NOT EXISTS (SELECT FROM webhooks.failing_endpoint WHERE endpoint_id = o.endpoint_id))`,
    values: [outcomes.map(({ delivery }) => delivery.deliveryId), outcomes.map(({ delivery }) => delivery.endpointId)],
  });
  return new Set(rows.map(({ id }) => id));
}

/** Releases the leases of interrupted attempts, whose outcome stays unknown. */
export async function releaseLeases(pool: pg.Pool, deliveries: readonly ClaimedDelivery[], now: number): Promise<void> {
  const deliveryIds = deliveries.map(({ deliveryId }) => deliveryId);
  await inTransaction(pool, async (client) => {
    await lockOrder(client, listGroups(deliveries));
    await client.query({
      text: `WITH released AS (
               UPDATE webhooks.pending_delivery p SET lease_expires_at = NULL
                 FROM unnest($1::uuid[], $2::integer[]) AS c (delivery_id, number)
                WHERE p.delivery_id = ANY ($1) AND p.delivery_id = c.delivery_id AND p.attempt_count = c.number
               RETURNING p.delivery_id)
             UPDATE webhooks.delivery d SET updated_at = $3 FROM released WHERE d.delivery_id = released.delivery_id`,
      values: [deliveryIds, deliveries.map(({ attemptNumber }) => attemptNumber), toInstant(now)],
    });
  });
}

/**
 * Writes the outcomes of successful attempts in one statement, so that the usual case takes one round trip. The
 * statement updates attempts and deliveries, and ends the failure periods of the endpoints.
 *
 * @param db pool, or the connection of a transaction
 * @param now milliseconds since 1970
 */
async function writeSuccesses(
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

function toAttemptColumns(outcomes: readonly FinishedAttempt[]) {
  return {
    deliveryIds: outcomes.map(({ delivery }) => delivery.deliveryId),
    attemptNumbers: outcomes.map(({ delivery }) => delivery.attemptNumber),
    durationsMs: outcomes.map(({ result }) => result.durationMs),
    statusCodes: outcomes.map(({ result }) => result.statusCode),
    bodies: outcomes.map(({ result }) => result.responseBody),
  };
}
