import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { inTransaction } from "../../../shared/postgres/pool.ts";
import { listGroups, releaseNext } from "../match/ordering.ts";
import type { FinishedAttempt } from "../send/attempt-delivery.ts";
import type { ClaimedDelivery } from "../send/claim.ts";
import { trackFailingEndpoints } from "./failing-endpoints.ts";

/**
 * Writes the outcomes of attempts: the attempts, the status and due time of their deliveries, and the failure periods
 * of their endpoints. If a delivery has been leased again since the attempt, a failure does not change the delivery,
 * but a success still ends it. Then releases deliveries that waited for a delivery that has ended.
 *
 * @param options.skipsLocked true to skip outcomes whose rows another transaction has locked; false to wait for the
 *   locks
 * @param options.now milliseconds since 1970
 * @returns `writtenIds`: ids of the deliveries whose outcomes were written; `releasedEndpoints`: endpoints of the
 *   released deliveries
 */
export async function writeOutcomes(
  pool: pg.Pool,
  outcomes: readonly FinishedAttempt[],
  { skipsLocked, now }: { skipsLocked: boolean; now: number },
) {
  let writtenIds: ReadonlySet<string> = new Set(outcomes.map(({ delivery }) => delivery.deliveryId));
  if (outcomes.every(({ verdict }) => verdict.status === "delivered"))
    writtenIds = await writeSuccesses(pool, outcomes, { skipsLocked, now });
  else
    await inTransaction(pool, async (client) => {
      if (skipsLocked) writtenIds = await lockRows(client, outcomes);
      const readyOutcomes = outcomes.filter(({ delivery }) => writtenIds.has(delivery.deliveryId));
      if (readyOutcomes.length > 0) await writeWithFailures(client, readyOutcomes, now);
    });
  const endedDeliveries = outcomes.flatMap(({ delivery, verdict }) =>
    verdict.status === "pending" || !writtenIds.has(delivery.deliveryId) ? [] : [delivery],
  );
  // If this statement fails, the dispatcher releases the deliveries a moment later.
  const releasedEndpoints = await releaseNext(pool, listGroups(endedDeliveries), now).catch(() => []);
  return { writtenIds, releasedEndpoints };
}

/**
 * CTEs that lock the rows of the outcomes `o`, and skip locked rows. `ready`: outcomes whose remaining rows are all
 * locked by this transaction. $1: delivery ids.
 */
const LOCKED_SQL = `
  delivery_row AS MATERIALIZED (
    SELECT p.delivery_id FROM webhooks.pending_delivery p JOIN webhooks.delivery d USING (delivery_id)
     WHERE p.delivery_id = ANY ($1::uuid[]) FOR UPDATE SKIP LOCKED
  ),
  attempt_row AS MATERIALIZED (
    SELECT delivery_id, number FROM webhooks.attempt WHERE delivery_id = ANY ($1::uuid[]) FOR UPDATE SKIP LOCKED
  ),
  pending AS MATERIALIZED (
    SELECT delivery_id FROM webhooks.pending_delivery WHERE delivery_id = ANY ($1::uuid[])
  ),
  recorded AS MATERIALIZED (
    SELECT delivery_id, number FROM webhooks.attempt WHERE delivery_id = ANY ($1::uuid[])
  ),
  ready AS MATERIALIZED (
    SELECT o.* FROM o
     WHERE ((o.delivery_id, o.number) IN (TABLE attempt_row) OR (o.delivery_id, o.number) NOT IN (TABLE recorded))
       AND (o.delivery_id IN (TABLE delivery_row) OR o.delivery_id NOT IN (TABLE pending))
  )`;

/**
 * Locks the rows of attempts, deliveries and failure periods. Skips rows that another transaction has locked.
 *
 * @returns ids of the deliveries whose rows are all locked by this transaction
 */
async function lockRows(client: pg.ClientBase, outcomes: readonly FinishedAttempt[]): Promise<Set<string>> {
  const { rows } = await client.query<{ id: string }>({
    name: "lock outcomes",
    text: `WITH o AS MATERIALIZED (
             SELECT * FROM unnest($1::uuid[], $2::integer[], $3::uuid[]) AS o (delivery_id, number, endpoint_id)),
           ${LOCKED_SQL},
           period AS MATERIALIZED (
             SELECT endpoint_id FROM webhooks.failing_endpoint
              WHERE endpoint_id = ANY ($3::uuid[]) ORDER BY endpoint_id FOR UPDATE SKIP LOCKED)
           SELECT delivery_id AS id FROM ready
            WHERE endpoint_id IN (SELECT endpoint_id FROM period)
               OR NOT EXISTS (SELECT FROM webhooks.failing_endpoint f WHERE f.endpoint_id = ready.endpoint_id)`,
    values: [
      outcomes.map(({ delivery }) => delivery.deliveryId),
      outcomes.map(({ delivery }) => delivery.attemptNumber),
      outcomes.map(({ delivery }) => delivery.endpointId),
    ],
  });
  return new Set(rows.map(({ id }) => id));
}

async function writeWithFailures(
  client: pg.ClientBase,
  outcomes: readonly FinishedAttempt[],
  now: number,
): Promise<void> {
  await writeAttempts(client, outcomes);
  await updateDeliveries(client, outcomes, now);
  await trackFailingEndpoints(client, outcomes, now);
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
       SET next_attempt_at = o.next_attempt_at, failed_attempt_count = p.failed_attempt_count + 1, lease_expires_at = NULL
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
   WHERE d.delivery_id = moved.delivery_id`;

async function updateDeliveries(
  client: pg.ClientBase,
  outcomes: readonly FinishedAttempt[],
  now: number,
): Promise<void> {
  await client.query({
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
}

/** Releases the leases of interrupted attempts, whose outcome stays unknown. */
export async function releaseLeases(pool: pg.Pool, deliveries: readonly ClaimedDelivery[], now: number): Promise<void> {
  const deliveryIds = deliveries.map(({ deliveryId }) => deliveryId);
  await pool.query(
    `WITH released AS (
       UPDATE webhooks.pending_delivery p SET lease_expires_at = NULL
         FROM unnest($1::uuid[], $2::integer[]) AS c (delivery_id, number)
        WHERE p.delivery_id = ANY ($1) AND p.delivery_id = c.delivery_id AND p.attempt_count = c.number
       RETURNING p.delivery_id)
     UPDATE webhooks.delivery d SET updated_at = $3 FROM released WHERE d.delivery_id = released.delivery_id`,
    [deliveryIds, deliveries.map(({ attemptNumber }) => attemptNumber), toInstant(now)],
  );
}

/**
 * Writes the outcomes of successful attempts in one statement, so that the usual case takes one round trip. The
 * statement updates attempts and deliveries, and ends the failure periods of the endpoints.
 *
 * @param now milliseconds since 1970
 * @returns ids of the deliveries whose outcomes are written
 */
async function writeSuccesses(
  pool: pg.Pool,
  outcomes: readonly FinishedAttempt[],
  { skipsLocked, now }: { skipsLocked: boolean; now: number },
): Promise<Set<string>> {
  const { deliveryIds, attemptNumbers, durationsMs, statusCodes, bodies } = toAttemptColumns(outcomes);
  const { rows } = await pool.query<{ id: string }>({
    name: skipsLocked ? "write unlocked successes" : "write successes",
    text: `WITH o AS MATERIALIZED (
             SELECT * FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::integer[], $5::text[], $6::uuid[])
                AS o (delivery_id, number, duration_ms, status_code, answer, endpoint_id)),
           ${skipsLocked ? LOCKED_SQL : "ready AS (SELECT * FROM o)"},
           attempts AS (
             UPDATE webhooks.attempt a
                SET duration_ms = r.duration_ms, status_code = r.status_code, error = NULL, answer = r.answer
               FROM ready r WHERE a.delivery_id = r.delivery_id AND a.number = r.number),
           well AS (
             DELETE FROM webhooks.failing_endpoint WHERE endpoint_id IN (
               SELECT endpoint_id FROM webhooks.failing_endpoint WHERE endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM ready))
                  AND NOT is_disabled ORDER BY endpoint_id FOR UPDATE ${skipsLocked ? "SKIP LOCKED" : ""})),
           ended AS (
             DELETE FROM webhooks.pending_delivery WHERE delivery_id = ANY (ARRAY(SELECT delivery_id FROM ready))
             RETURNING delivery_id, attempt_count),
           moved AS (
             UPDATE webhooks.delivery d
                SET status = 'delivered', attempt_count = ended.attempt_count, next_attempt_at = NULL, updated_at = $7
               FROM ended WHERE d.delivery_id = ended.delivery_id)
           SELECT delivery_id AS id FROM ready`,
    values: [
      ...[deliveryIds, attemptNumbers, durationsMs, statusCodes, bodies],
      ...[outcomes.map(({ delivery }) => delivery.endpointId), toInstant(now)],
    ],
  });
  return new Set(rows.map(({ id }) => id));
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
