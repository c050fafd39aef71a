import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { buildIsAnimalVisibleSql } from "../../../shared/partner-api/animal-access.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { listGroups, type OrderableDelivery, releaseNext } from "../match/ordering.ts";
import { READ_MODELS_CURRENT_SQL } from "../match/revocations.ts";
import { buildDistinctPendingSql, PENDING_CONDITIONS } from "../schedule/due.ts";

const MAX_CLOSED_DELIVERIES = 500;

/**
 * Maximum time that a due delivery waits for the approval of its endpoint's origin. After this time, the delivery is
 * skipped.
 */
const MAX_APPROVAL_WAIT_MS = 30 * 24 * 60 * 60 * 1_000;

/** Final statuses of deliveries that are closed without being sent. */
export const closedStatuses = ["skipped", "cancelled"] as const;
export type ClosedStatus = (typeof closedStatuses)[number];

export interface SweepResult {
  closedCounts: Record<ClosedStatus, number>;
  hasMore: boolean;
}

/**
 * Closes a batch of pending deliveries that may no longer be sent. Deliveries to a disabled endpoint are skipped.
 * Deliveries are cancelled if the endpoint, the application or the installation was revoked, or the application lost
 * access to the branch or the animal. A delivery stays pending while an attempt is in progress, or while a stream that
 * grants its access is quarantined.
 *
 * @param now milliseconds since 1970
 */
export function closeUnsendableDeliveries(pool: pg.Pool, now: number): Promise<SweepResult> {
  const values = [toInstant(now)];
  return closeDeliveries(pool, { name: "close unsendable deliveries", text: CLOSE_UNSENDABLE_SQL, values }, now);
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
  return closeDeliveries(pool, { name: "skip unapproved deliveries", text: SKIP_UNAPPROVED_SQL, values }, oldestDueAt);
}

/** @param earliestDueAt earliest due time of deliveries that are released. Milliseconds since 1970 */
async function closeDeliveries(pool: pg.Pool, statement: pg.QueryConfig, earliestDueAt: number): Promise<SweepResult> {
  const { rows } = await pool.query<OrderableDelivery & { status: ClosedStatus }>(statement);
  // The next search finds the released deliveries.
  await releaseNext(pool, listGroups(rows), earliestDueAt);
  const skippedCount = rows.filter(({ status }) => status === "skipped").length;
  const closedCounts = { skipped: skippedCount, cancelled: rows.length - skippedCount };
  return { closedCounts, hasMore: rows.length === MAX_CLOSED_DELIVERIES };
}

/** Closes the chosen deliveries, except those whose record another transaction has locked. */
const CLOSE_CHOSEN_SQL = `,
  unlocked AS MATERIALIZED (
    SELECT d.delivery_id, chosen.status
      FROM webhooks.delivery d JOIN chosen USING (delivery_id)
     WHERE d.delivery_id = ANY (ARRAY(SELECT delivery_id FROM chosen))
       FOR UPDATE OF d SKIP LOCKED
  ),
  closed AS (
    DELETE FROM webhooks.pending_delivery p
     USING unlocked
     WHERE p.delivery_id = ANY (ARRAY(SELECT delivery_id FROM unlocked)) AND p.delivery_id = unlocked.delivery_id
    RETURNING p.delivery_id, p.attempt_count, p.ordering_key, unlocked.status
  )
  UPDATE webhooks.delivery d
     SET status = closed.status, attempt_count = closed.attempt_count, next_attempt_at = NULL, updated_at = $1
    FROM closed
   WHERE d.delivery_id = closed.delivery_id
  RETURNING d.endpoint_id AS "endpointId", d.status, closed.ordering_key AS "orderingKey"`;

/** Selects and locks pending deliveries of the endpoint `x` that have no attempt in progress. */
function buildPendingSql(condition: string): string {
  return `CROSS JOIN LATERAL (
        SELECT delivery_id FROM webhooks.pending_delivery
         WHERE endpoint_id = x.endpoint_id AND ${condition} AND (lease_expires_at IS NULL OR lease_expires_at <= $1)
         LIMIT ${MAX_CLOSED_DELIVERIES} FOR UPDATE SKIP LOCKED) d`;
}

const CLOSE_UNSENDABLE_SQL = `
  WITH RECURSIVE ${buildDistinctPendingSql("released_endpoints", "endpoint_id", PENDING_CONDITIONS.released)},
  ${buildDistinctPendingSql("blocked_endpoints", "endpoint_id", PENDING_CONDITIONS.blocked)},
  access AS MATERIALIZED (
    SELECT e.endpoint_id, e.application_id, i.branch_ids, i.animal_access,
           e.status = 'revoked' OR a.revoked OR COALESCE(i.status <> 'approved', false) AS revoked,
           e.status = 'disabled' AS disabled
      FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
      LEFT JOIN ${READ_MODEL_SCHEMA}.installation i ON i.application_id = e.application_id AND i.clinic_id = e.clinic_id
      JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = e.application_id
     WHERE e.endpoint_id IN (SELECT endpoint_id FROM released_endpoints UNION SELECT endpoint_id FROM blocked_endpoints)
       AND ${READ_MODELS_CURRENT_SQL}
  ),
  uncovered AS (
    SELECT s.endpoint_id, b.branch_id
      FROM access s
     CROSS JOIN LATERAL (
       WITH RECURSIVE ${buildDistinctPendingSql("b", "branch_id", "endpoint_id = s.endpoint_id AND s.branch_ids IS NOT NULL")}
       TABLE b) b
     WHERE NOT s.revoked AND NOT s.disabled AND NOT s.branch_ids ? b.branch_id::text
  ),
  unlinked AS (
    SELECT s.endpoint_id, n.animal_id
      FROM access s
     CROSS JOIN LATERAL (
       WITH RECURSIVE ${buildDistinctPendingSql("n", "animal_id", "endpoint_id = s.endpoint_id AND s.animal_access <> 'all'")}
       TABLE n) n
     WHERE NOT s.revoked AND NOT s.disabled
       AND NOT EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.quarantined_stream WHERE stream = 'animalConsent-' || n.animal_id)
       AND NOT ${buildIsAnimalVisibleSql({
         animalAccess: "s.animal_access",
         applicationId: "s.application_id",
         animalId: "n.animal_id",
       })}
  ),
  chosen AS MATERIALIZED (
    SELECT d.delivery_id, CASE WHEN x.disabled AND NOT x.revoked THEN 'skipped' ELSE 'cancelled' END AS status
      FROM access x ${buildPendingSql("true")}
     WHERE x.revoked OR x.disabled
    UNION ALL
    SELECT d.delivery_id, 'cancelled' FROM uncovered x ${buildPendingSql("branch_id = x.branch_id")}
    UNION ALL
    SELECT d.delivery_id, 'cancelled'
      FROM unlinked x
      ${buildPendingSql("branch_id IS NOT NULL AND (animal_id = x.animal_id OR (animal_id IS NULL AND x.animal_id IS NULL))")}
     LIMIT ${MAX_CLOSED_DELIVERIES}
  )${CLOSE_CHOSEN_SQL}`;

const SKIP_UNAPPROVED_SQL = `
  WITH chosen AS MATERIALIZED (
    SELECT d.delivery_id, 'skipped' AS status
      FROM ${READ_MODEL_SCHEMA}.webhook_endpoint x
      JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = x.application_id
      ${buildPendingSql("next_attempt_at < $2")}
     WHERE x.environment = 'production' AND NOT a.webhook_origins ? x.origin AND ${READ_MODELS_CURRENT_SQL}
     LIMIT ${MAX_CLOSED_DELIVERIES}
  )${CLOSE_CHOSEN_SQL}`;
