import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { inTransaction } from "../outbox/transaction.ts";
import type { DueEndpoint } from "../scheduling/due-endpoints.ts";
import { lockOrder } from "./lock.ts";

/** Deliveries of one endpoint whose events are sent in order. */
export interface OrderedGroup {
  endpointId: string;
  /** Id of the appointment. */
  orderingKey: string;
}

/** A delivery that may belong to an {@link OrderedGroup}. */
export interface OrderableDelivery {
  endpointId: string;
  /** Id of the appointment whose events are sent in order; null if the order of the delivery does not matter. */
  orderingKey: string | null;
}

const GROUPS_SQL = `
  (SELECT DISTINCT endpoint_id, ordering_key FROM unnest($1::uuid[], $2::uuid[]) AS u (endpoint_id, ordering_key)) g`;

const RELEASE_NEXT_SQL = `
  WITH released AS (
    UPDATE webhooks.pending_delivery
       SET is_held = false, next_attempt_at = GREATEST(next_attempt_at, $3)
     WHERE delivery_id = ANY (ARRAY(
       SELECT earliest.delivery_id
         FROM ${GROUPS_SQL}
        CROSS JOIN LATERAL (
          SELECT delivery_id FROM webhooks.pending_delivery
           WHERE endpoint_id = g.endpoint_id AND ordering_key = g.ordering_key AND is_held
           ORDER BY event_revision LIMIT 1) earliest
        WHERE NOT EXISTS (SELECT FROM webhooks.pending_delivery r
                           WHERE r.endpoint_id = g.endpoint_id AND r.ordering_key = g.ordering_key AND NOT r.is_held)))
    RETURNING delivery_id, round_attempt_count
  )
  SELECT CASE r.round_attempt_count WHEN 0 THEN 'first' ELSE 'retry' END AS lane, d.environment,
         d.application_id AS "applicationId", d.endpoint_id AS "endpointId"
    FROM released r JOIN webhooks.delivery d USING (delivery_id)`;

const HOLD_LATER_SQL = `
  UPDATE webhooks.pending_delivery later
     SET is_held = true
    FROM ${GROUPS_SQL}
   WHERE later.endpoint_id = g.endpoint_id AND later.ordering_key = g.ordering_key AND NOT later.is_held
     AND EXISTS (SELECT FROM webhooks.pending_delivery earlier
                  WHERE earlier.endpoint_id = g.endpoint_id AND earlier.ordering_key = g.ordering_key
                    AND earlier.is_held AND earlier.event_revision < later.event_revision)`;

/** Returns the group of each delivery that has an ordering key. */
export function listGroups(deliveries: readonly OrderableDelivery[]): OrderedGroup[] {
  return deliveries.flatMap(({ endpointId, orderingKey }) =>
    orderingKey === null ? [] : [{ endpointId, orderingKey }],
  );
}

/**
 * Releases the earliest held delivery of each group, after other deliveries of the group have ended. A group with a
 * delivery that is not held stays unchanged. The transaction must hold the lock of {@link lockOrder}.
 *
 * @param earliestDueAt earliest due time of the released deliveries. Milliseconds since 1970
 * @returns endpoints of the released deliveries
 */
export async function releaseNext(
  client: pg.ClientBase,
  groups: readonly OrderedGroup[],
  earliestDueAt: number,
): Promise<DueEndpoint[]> {
  if (groups.length === 0) return [];
  const { rows } = await client.query<DueEndpoint>({
    name: "release deliveries",
    text: RELEASE_NEXT_SQL,
    values: [...toGroupColumns(groups), toInstant(earliestDueAt)],
  });
  return rows;
}

/**
 * Arranges groups to which held deliveries were added. In each group, holds a delivery that is later than an added one,
 * and releases the earliest delivery. An attempt that is in progress continues. The transaction must hold the lock of
 * {@link lockOrder}.
 *
 * @param now milliseconds since 1970
 * @returns endpoints of the released deliveries
 */
export async function arrange(
  client: pg.ClientBase,
  groups: readonly OrderedGroup[],
  now: number,
): Promise<DueEndpoint[]> {
  if (groups.length === 0) return [];
  await client.query({ name: "hold deliveries", text: HOLD_LATER_SQL, values: toGroupColumns(groups) });
  return releaseNext(client, groups, now);
}

/** Maximum number of groups that one repair releases. */
const MAX_REPAIRED_GROUPS = 1_000;

/**
 * Releases a batch of held deliveries that no other delivery precedes. Such deliveries exist only if `rebuild
 * --adopt-log` or an earlier release has ended the delivery before them.
 *
 * @param now milliseconds since 1970
 * @returns true if more deliveries may need to be released
 */
export function releaseForgottenDeliveries(pool: pg.Pool, now: number): Promise<boolean> {
  return inTransaction(pool, async (client) => {
    const { rows } = await client.query<OrderedGroup>({
      name: "find forgotten deliveries",
      text: `SELECT DISTINCT h.endpoint_id AS "endpointId", h.ordering_key AS "orderingKey"
               FROM webhooks.pending_delivery h
              WHERE h.is_held
                AND NOT EXISTS (SELECT FROM webhooks.pending_delivery r
                                 WHERE r.endpoint_id = h.endpoint_id AND r.ordering_key = h.ordering_key AND NOT r.is_held)
              LIMIT ${MAX_REPAIRED_GROUPS}`,
    });
    await lockOrder(client, rows);
    await releaseNext(client, rows, now);
    return rows.length === MAX_REPAIRED_GROUPS;
  });
}

function toGroupColumns(groups: readonly OrderedGroup[]): [string[], string[]] {
  return [groups.map(({ endpointId }) => endpointId), groups.map(({ orderingKey }) => orderingKey)];
}
