import type pg from "pg";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { LANE_CONDITIONS } from "../webhooks/scheduling/due.ts";

/** Upper limit of each count, so that counting stays cheap. */
export const MAX_COUNTED_DELIVERIES = 100_000;

/** Numbers of webhook deliveries. Each number is at most {@link MAX_COUNTED_DELIVERIES}. */
export interface DeliveryCounts {
  /** Deliveries that are neither delivered nor closed. */
  pending: number;
  /** Pending deliveries whose next attempt is due. */
  due: number;
  /** Deliveries that failed after the last retry and were not replayed. They are deleted after 30 days. */
  failed: number;
}

const pendingDeliveriesSql = (lane: string) =>
  `SELECT due_at FROM webhooks.delivery WHERE status = 'pending' AND ${lane}`;

/** @param now milliseconds since 1970 */
export async function countDeliveries(pool: pg.Pool, now: number): Promise<DeliveryCounts> {
  const { rows } = await pool.query<Record<keyof DeliveryCounts, bigint>>({
    name: "count deliveries",
    // Each lane has a separate query, because pending deliveries are indexed only by lane.
    text: `SELECT count(*) AS pending, count(*) FILTER (WHERE due_at <= $1) AS due,
                  (SELECT count(*) FROM (SELECT FROM webhooks.delivery WHERE status = 'failed' LIMIT ${MAX_COUNTED_DELIVERIES}) f) AS failed
             FROM (${Object.values(LANE_CONDITIONS).map(pendingDeliveriesSql).join(" UNION ALL ")} LIMIT ${MAX_COUNTED_DELIVERIES}) d`,
    values: [toInstant(now)],
  });
  const { pending, due, failed } = rows[0] ?? {};
  return { pending: Number(pending ?? 0), due: Number(due ?? 0), failed: Number(failed ?? 0) };
}
