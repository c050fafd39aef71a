import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { listGroups, type OrderableDelivery, releaseNext, TRY_LOCK_ORDER_SQL } from "../match/ordering.ts";
import {
  addToOutbox,
  createDeliverySkippedEvent,
  DELIVERY_ROUND_COLUMNS,
  type DeliveryRound,
  inTransaction,
} from "../record/outbox.ts";
import { buildPendingEndpointsSql, LANE_CONDITIONS, READ_MODELS_CURRENT_SQL } from "../schedule/due.ts";

const MAX_BATCH_SIZE = 500;

/** Each condition has a partial index. */
const PENDING_CONDITIONS = { ...LANE_CONDITIONS, held: "is_held" };

/**
 * Maximum time that a due delivery waits for the approval of its endpoint's origin. After this time, the delivery is
 * skipped.
 */
const MAX_APPROVAL_WAIT_MS = 30 * 24 * 60 * 60 * 1_000;

/** Final statuses of deliveries that are closed without being sent. */
export const closedStatuses = ["skipped", "cancelled"] as const;
export type ClosedStatus = (typeof closedStatuses)[number];

export interface SweepResult {
  /** For each skipped delivery, an event was added to the outbox. */
  closedCounts: Record<ClosedStatus, number>;
  hasMore: boolean;
}

/**
 * Closes a batch of pending deliveries that may no longer be sent. Deliveries to a disabled endpoint are skipped.
 * Deliveries are cancelled if the endpoint, the application or the installation was revoked, or the application lost
 * access to the branch. Deliveries with an attempt in progress stay pending.
 *
 * @param now milliseconds since 1970
 */
export function closeUnsendableDeliveries(pool: pg.Pool, now: number): Promise<SweepResult> {
  const values = [toInstant(now)];
  return closeDeliveries(pool, { name: "close unsendable deliveries", text: CLOSE_UNSENDABLE_SQL, values }, now, now);
}

/**
 * Skips a batch of pending deliveries that have been due for 30 days and whose endpoint's origin is not approved.
 * Skipped deliveries can be replayed.
 *
 * @param now milliseconds since 1970
 */
export function skipUnapprovedDeliveries(pool: pg.Pool, now: number): Promise<SweepResult> {
  const oldestDueAt = now - MAX_APPROVAL_WAIT_MS;
  const values = [toInstant(now), toInstant(oldestDueAt)];
  // The wait of a released delivery does not start again.
  return closeDeliveries(
    pool,
    { name: "skip unapproved deliveries", text: SKIP_UNAPPROVED_SQL, values },
    now,
    oldestDueAt,
  );
}

/** @param earliestDueAt earliest due time of deliveries that are released. Milliseconds since 1970 */
function closeDeliveries(
  pool: pg.Pool,
  statement: pg.QueryConfig,
  now: number,
  earliestDueAt: number,
): Promise<SweepResult> {
  return inTransaction(pool, async (client) => {
    const { rows } = await client.query<DeliveryRound & OrderableDelivery & { status: ClosedStatus }>(statement);
    // The next search finds the released deliveries.
    await releaseNext(client, listGroups(rows), earliestDueAt);
    const skippedRows = rows.filter(({ status }) => status === "skipped");
    const outboxEvents = skippedRows.map((row) => createDeliverySkippedEvent(row, now));
    await addToOutbox(client, outboxEvents);
    const closedCounts = { skipped: skippedRows.length, cancelled: rows.length - skippedRows.length };
    return { closedCounts, hasMore: rows.length === MAX_BATCH_SIZE };
  });
}

const CLOSE_CHOSEN_SQL = `,
  closed AS (
    DELETE FROM webhooks.pending_delivery p
     USING chosen
     WHERE p.delivery_id = ANY (ARRAY(SELECT delivery_id FROM chosen)) AND p.delivery_id = chosen.delivery_id
    RETURNING p.delivery_id, p.attempt_count, p.ordering_key, chosen.status
  )
  UPDATE webhooks.delivery d
     SET status = closed.status, attempt_count = closed.attempt_count, next_attempt_at = NULL, updated_at = $1
    FROM closed
   WHERE d.delivery_id = closed.delivery_id
  RETURNING ${DELIVERY_ROUND_COLUMNS}, d.status, closed.ordering_key AS "orderingKey"`;

const CLOSE_UNSENDABLE_SQL = `
  WITH RECURSIVE ${buildPendingEndpointsSql("first_endpoints", LANE_CONDITIONS.first)},
  ${buildPendingEndpointsSql("retry_endpoints", LANE_CONDITIONS.retry)},
  ${buildPendingEndpointsSql("held_endpoints", PENDING_CONDITIONS.held)},
  access AS MATERIALIZED (
    SELECT e.endpoint_id, i.branch_ids,
           e.status = 'revoked' OR a.revoked OR i.status <> 'approved' AS revoked, e.status = 'disabled' AS disabled
      FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
      JOIN ${READ_MODEL_SCHEMA}.installation i ON i.application_id = e.application_id AND i.clinic_id = e.clinic_id
      JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = e.application_id
     WHERE e.endpoint_id IN (SELECT endpoint_id FROM first_endpoints UNION SELECT endpoint_id FROM retry_endpoints
                             UNION SELECT endpoint_id FROM held_endpoints)
       AND ${READ_MODELS_CURRENT_SQL}
  ),
  chosen AS MATERIALIZED (${buildLanesSql(
    (laneCondition) => `
    SELECT d.delivery_id, d.status
      FROM access s
     CROSS JOIN LATERAL (
       SELECT delivery_id, CASE WHEN s.disabled AND NOT s.revoked THEN 'skipped' ELSE 'cancelled' END AS status
         FROM webhooks.pending_delivery
        WHERE endpoint_id = s.endpoint_id AND ${laneCondition}
          AND (lease_expires_at IS NULL OR lease_expires_at <= $1)
          AND (s.revoked OR s.disabled OR NOT (s.branch_ids ? branch_id::text)) AND ${TRY_LOCK_ORDER_SQL}
        LIMIT ${MAX_BATCH_SIZE}
          FOR UPDATE SKIP LOCKED) d
     WHERE s.revoked OR s.disabled OR s.branch_ids IS NOT NULL`,
  )}
  )${CLOSE_CHOSEN_SQL}`;

const SKIP_UNAPPROVED_SQL = `
  WITH chosen AS MATERIALIZED (${buildLanesSql(
    (laneCondition) => `
    SELECT d.delivery_id, 'skipped' AS status
      FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
      JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = e.application_id
     CROSS JOIN LATERAL (
       SELECT delivery_id
         FROM webhooks.pending_delivery
        WHERE endpoint_id = e.endpoint_id AND ${laneCondition}
          AND next_attempt_at < $2 AND (lease_expires_at IS NULL OR lease_expires_at < $2) AND ${TRY_LOCK_ORDER_SQL}
        LIMIT ${MAX_BATCH_SIZE}
          FOR UPDATE SKIP LOCKED) d
     WHERE e.environment = 'production' AND NOT a.webhook_origins ? e.origin AND ${READ_MODELS_CURRENT_SQL}`,
  )}
  )${CLOSE_CHOSEN_SQL}`;

/**
 * Returns SQL that selects one batch of deliveries from both lanes and of held deliveries. Each needs a separate query,
 * because each has a separate index of pending deliveries.
 *
 * @param buildLaneSql creates one of the queries from the SQL condition of its deliveries
 */
function buildLanesSql(buildLaneSql: (laneCondition: string) => string): string {
  const laneQueries = Object.values(PENDING_CONDITIONS).map(buildLaneSql);
  return `SELECT * FROM (${laneQueries.join(" UNION ALL ")}) lanes LIMIT ${MAX_BATCH_SIZE}`;
}
