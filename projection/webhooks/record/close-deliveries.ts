import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { buildIsAnimalVisibleSql } from "../../../shared/partner-api/animal-access.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { listGroups, type OrderableDelivery, releaseNext } from "../match/ordering.ts";
import { READ_MODELS_CURRENT_SQL } from "../match/revocations.ts";
import { buildPendingEndpointsSql, PENDING_CONDITIONS } from "../schedule/due.ts";

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

/**
 * Runs a statement that closes deliveries, and releases the next delivery of each group.
 *
 * @param earliestDueAt time before which no released delivery is due, in milliseconds since 1970
 */
async function closeDeliveries(pool: pg.Pool, statement: pg.QueryConfig, earliestDueAt: number): Promise<SweepResult> {
  const { rows } = await pool.query<OrderableDelivery & { status: ClosedStatus }>(statement);
  // The next search finds the released deliveries.
  await releaseNext(pool, listGroups(rows), earliestDueAt);
  const skippedCount = rows.filter(({ status }) => status === "skipped").length;
  const closedCounts = { skipped: skippedCount, cancelled: rows.length - skippedCount };
  return { closedCounts, hasMore: rows.length === MAX_CLOSED_DELIVERIES };
}

/** Closes the chosen deliveries. Skips a delivery if another transaction has locked its row. */
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

/**
 * Selects the branches of the pending deliveries of the endpoint `s`, unless its application may access all branches.
 * Reads one index entry for each branch.
 */
const PENDING_BRANCHES_SQL = `
  WITH RECURSIVE branches AS (
    (SELECT branch_id FROM webhooks.pending_delivery
      WHERE endpoint_id = s.endpoint_id AND s.branch_ids IS NOT NULL ORDER BY branch_id LIMIT 1)
    UNION ALL
    SELECT (SELECT branch_id FROM webhooks.pending_delivery
             WHERE endpoint_id = s.endpoint_id AND branch_id > branches.branch_id ORDER BY branch_id LIMIT 1)
      FROM branches WHERE branch_id IS NOT NULL
  )
  SELECT branch_id FROM branches WHERE branch_id IS NOT NULL`;

/**
 * Selects the animals of the pending deliveries of the endpoint `s`, if its application sees only linked animals. Reads
 * one index entry for each animal. Null stands for deliveries without an animal.
 */
const PENDING_ANIMALS_SQL = `
  WITH RECURSIVE animals AS (
    (SELECT animal_id FROM webhooks.pending_delivery
      WHERE endpoint_id = s.endpoint_id AND s.animal_access <> 'all' ORDER BY animal_id LIMIT 1)
    UNION ALL
    SELECT (SELECT animal_id FROM webhooks.pending_delivery
             WHERE endpoint_id = s.endpoint_id AND animal_id > animals.animal_id ORDER BY animal_id LIMIT 1)
      FROM animals WHERE animal_id IS NOT NULL
  )
  SELECT animal_id FROM animals`;

const CLOSE_UNSENDABLE_SQL = `
  WITH RECURSIVE ${buildPendingEndpointsSql("released_endpoints", PENDING_CONDITIONS.released)},
  ${buildPendingEndpointsSql("blocked_endpoints", PENDING_CONDITIONS.blocked)},
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
     CROSS JOIN LATERAL (${PENDING_BRANCHES_SQL}) b
     WHERE NOT s.revoked AND NOT s.disabled AND NOT s.branch_ids ? b.branch_id::text
  ),
  unlinked AS (
    SELECT s.endpoint_id, n.animal_id
      FROM access s
     CROSS JOIN LATERAL (${PENDING_ANIMALS_SQL}) n
     WHERE NOT s.revoked AND NOT s.disabled
       AND NOT EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.quarantined_stream WHERE stream = 'animalConsent-' || n.animal_id)
       AND NOT ${buildIsAnimalVisibleSql({
         animalAccess: "s.animal_access",
         applicationId: "s.application_id",
         animalId: "n.animal_id",
       })}
  ),
  chosen AS MATERIALIZED (SELECT * FROM (${buildUnionSql(
    (condition) => `
    SELECT d.delivery_id, d.status
      FROM access s
     CROSS JOIN LATERAL (
       SELECT delivery_id, CASE WHEN s.disabled AND NOT s.revoked THEN 'skipped' ELSE 'cancelled' END AS status
         FROM webhooks.pending_delivery
        WHERE endpoint_id = s.endpoint_id AND ${condition}
          AND (lease_expires_at IS NULL OR lease_expires_at <= $1)
        LIMIT ${MAX_CLOSED_DELIVERIES}
          FOR UPDATE SKIP LOCKED) d
     WHERE s.revoked OR s.disabled`,
  )}) unsendable
    UNION ALL
    SELECT d.delivery_id, 'cancelled'
      FROM uncovered u
     CROSS JOIN LATERAL (
       SELECT delivery_id
         FROM webhooks.pending_delivery
        WHERE endpoint_id = u.endpoint_id AND branch_id = u.branch_id
          AND (lease_expires_at IS NULL OR lease_expires_at <= $1)
        LIMIT ${MAX_CLOSED_DELIVERIES}
          FOR UPDATE SKIP LOCKED) d
    UNION ALL
    SELECT d.delivery_id, 'cancelled'
      FROM unlinked u
     CROSS JOIN LATERAL (
       SELECT delivery_id
         FROM webhooks.pending_delivery
        WHERE endpoint_id = u.endpoint_id AND branch_id IS NOT NULL
          AND (animal_id = u.animal_id OR (animal_id IS NULL AND u.animal_id IS NULL))
          AND (lease_expires_at IS NULL OR lease_expires_at <= $1)
        LIMIT ${MAX_CLOSED_DELIVERIES}
          FOR UPDATE SKIP LOCKED) d
     LIMIT ${MAX_CLOSED_DELIVERIES}
  )${CLOSE_CHOSEN_SQL}`;

const SKIP_UNAPPROVED_SQL = `
  WITH chosen AS MATERIALIZED (${buildUnionSql(
    (condition) => `
    SELECT d.delivery_id, 'skipped' AS status
      FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e
      JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = e.application_id
     CROSS JOIN LATERAL (
       SELECT delivery_id
         FROM webhooks.pending_delivery
        WHERE endpoint_id = e.endpoint_id AND ${condition}
          AND next_attempt_at < $2 AND (lease_expires_at IS NULL OR lease_expires_at < $2)
        LIMIT ${MAX_CLOSED_DELIVERIES}
          FOR UPDATE SKIP LOCKED) d
     WHERE e.environment = 'production' AND NOT a.webhook_origins ? e.origin AND ${READ_MODELS_CURRENT_SQL}`,
  )}
  )${CLOSE_CHOSEN_SQL}`;

/**
 * Returns SQL that selects one batch of released and blocked deliveries. Separate queries read released and blocked
 * deliveries, because they have separate indexes.
 *
 * @param buildPartSql returns the query for the deliveries of one condition, which is in SQL
 */
function buildUnionSql(buildPartSql: (condition: string) => string): string {
  const parts = Object.values(PENDING_CONDITIONS).map(buildPartSql);
  return `SELECT * FROM (${parts.join(" UNION ALL ")}) parts LIMIT ${MAX_CLOSED_DELIVERIES}`;
}
