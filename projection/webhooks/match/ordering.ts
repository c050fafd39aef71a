import pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { inTransaction } from "../../../shared/postgres/pool.ts";
import type { DueEndpoint } from "../schedule/schedule.ts";

/** Deliveries to one endpoint with the same ordering key. They are sent one at a time, in the order of their events. */
export interface OrderedGroup {
  endpointId: string;
  orderingKey: string;
}

/** A delivery that may belong to an {@link OrderedGroup}. */
export interface OrderableDelivery {
  endpointId: string;
  /** Null if the delivery need not be in order. */
  orderingKey: string | null;
}

export function listGroups(deliveries: readonly OrderableDelivery[]): OrderedGroup[] {
  return deliveries.flatMap(({ endpointId, orderingKey }) =>
    orderingKey === null ? [] : [{ endpointId, orderingKey }],
  );
}

const GROUPS_SQL = `
  (SELECT DISTINCT endpoint_id, ordering_key FROM unnest($1::uuid[], $2::uuid[]) AS u (endpoint_id, ordering_key)) g`;

/**
 * Releases the earliest blocked delivery of each group, unless the group already has a released delivery. Skips rows
 * that another transaction has locked; a later call releases them. CASE makes Postgres use the primary key instead of
 * the whole partial index of blocked deliveries.
 */
const RELEASE_NEXT_SQL = `
  WITH earliest AS MATERIALIZED (
    SELECT h.delivery_id
      FROM ${GROUPS_SQL}
     CROSS JOIN LATERAL (
       SELECT delivery_id FROM webhooks.pending_delivery
        WHERE endpoint_id = g.endpoint_id AND ordering_key = g.ordering_key AND is_blocked
        ORDER BY event_position LIMIT 1) h
     WHERE NOT EXISTS (SELECT FROM webhooks.pending_delivery r
                        WHERE r.endpoint_id = g.endpoint_id AND r.ordering_key = g.ordering_key AND NOT r.is_blocked)
  ),
  released AS (
    UPDATE webhooks.pending_delivery
       SET is_blocked = false, next_attempt_at = GREATEST(next_attempt_at, $3)
     WHERE delivery_id = ANY (ARRAY(
       SELECT delivery_id FROM webhooks.pending_delivery
        WHERE delivery_id = ANY (ARRAY(SELECT delivery_id FROM earliest)) AND CASE WHEN is_blocked THEN true END
          FOR UPDATE SKIP LOCKED))
    RETURNING delivery_id
  )
  SELECT d.environment,
         d.application_id AS "applicationId", d.endpoint_id AS "endpointId"
    FROM released r JOIN webhooks.delivery d USING (delivery_id)`;

const BLOCK_LATER_SQL = `
  UPDATE webhooks.pending_delivery
     SET is_blocked = true
   WHERE delivery_id = ANY (ARRAY(
     SELECT later.delivery_id
       FROM ${GROUPS_SQL}
       JOIN webhooks.pending_delivery later
         ON later.endpoint_id = g.endpoint_id AND later.ordering_key = g.ordering_key AND NOT later.is_blocked
      WHERE EXISTS (SELECT FROM webhooks.pending_delivery earlier
                     WHERE earlier.endpoint_id = g.endpoint_id AND earlier.ordering_key = g.ordering_key
                       AND earlier.is_blocked AND earlier.event_position < later.event_position)
        FOR UPDATE OF later SKIP LOCKED))`;

/**
 * Releases the earliest blocked delivery of each group in which a delivery has ended. A group with a released delivery
 * stays unchanged. Call it after the commit that ended the delivery, so that it sees deliveries that were added at the
 * same moment.
 *
 * @param earliestDueAt time before which no released delivery is due, in milliseconds since 1970
 * @returns endpoints of the released deliveries
 */
export function releaseNext(
  db: pg.Pool | pg.ClientBase,
  groups: readonly OrderedGroup[],
  earliestDueAt: number,
): Promise<DueEndpoint[]> {
  return groups.length === 0 ? Promise.resolve([]) : release(db, groups, earliestDueAt).catch(ignoreConflict);
}

/**
 * Restores the order of groups to which blocked deliveries were added. In each group, blocks deliveries that follow a
 * blocked delivery, and releases the earliest delivery. An attempt in progress continues. Call it after the commit that
 * added the deliveries.
 *
 * @param now milliseconds since 1970
 * @returns endpoints of the released deliveries
 */
export async function arrange(pool: pg.Pool, groups: readonly OrderedGroup[], now: number): Promise<DueEndpoint[]> {
  if (groups.length === 0) return [];
  return inTransaction(pool, async (client) => {
    await client.query({ name: "block deliveries", text: BLOCK_LATER_SQL, values: toGroupColumns(groups) });
    return release(client, groups, now);
  }).catch(ignoreConflict);
}

async function release(
  db: pg.Pool | pg.ClientBase,
  groups: readonly OrderedGroup[],
  earliestDueAt: number,
): Promise<DueEndpoint[]> {
  const { rows } = await db.query<DueEndpoint>({
    name: "release deliveries",
    text: RELEASE_NEXT_SQL,
    values: [...toGroupColumns(groups), toInstant(earliestDueAt)],
  });
  return rows;
}

/**
 * Ignores a conflict with a transaction that has released another delivery of a group. The failed statement releases
 * nothing, and the next call finds its deliveries.
 */
function ignoreConflict(error: unknown): DueEndpoint[] {
  if (error instanceof pg.DatabaseError && error.constraint === "pending_delivery_head") return [];
  throw error;
}

const MAX_REPAIRED_GROUPS = 1_000;

/**
 * Arranges a batch of groups whose earliest delivery is blocked, for example because a process was killed before it
 * could arrange them.
 *
 * @param now milliseconds since 1970
 * @returns endpoints of the released deliveries
 */
export async function arrangeForgottenDeliveries(pool: pg.Pool, now: number): Promise<DueEndpoint[]> {
  const { rows } = await pool.query<OrderedGroup>({
    name: "forgotten deliveries",
    text: `SELECT DISTINCT h.endpoint_id AS "endpointId", h.ordering_key AS "orderingKey"
             FROM webhooks.pending_delivery h
            WHERE h.is_blocked
              AND NOT EXISTS (SELECT FROM webhooks.pending_delivery r
                               WHERE r.endpoint_id = h.endpoint_id AND r.ordering_key = h.ordering_key
                                 AND NOT r.is_blocked AND r.event_position <= h.event_position)
            LIMIT ${MAX_REPAIRED_GROUPS}`,
  });
  return arrange(pool, rows, now);
}

function toGroupColumns(groups: readonly OrderedGroup[]): [string[], string[]] {
  return [groups.map(({ endpointId }) => endpointId), groups.map(({ orderingKey }) => orderingKey)];
}
