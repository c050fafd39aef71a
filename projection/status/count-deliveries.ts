import type pg from "pg";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { IN_LANE } from "../webhooks/scheduling/due.ts";

/** Highest count, so that counting stays cheap. */
export const MAX_COUNT = 100_000;

/** Numbers of webhook deliveries, each up to `MOST`. */
export interface DeliveryCounts {
  /** Not delivered yet, and not failed. */
  pending: number;
  /** Pending deliveries whose next attempt is due. */
  due: number;
  /** Failed after the last retry, and not replayed. They are kept for 30 days. */
  failed: number;
}

const pendingIn = (lane: string) =>
  `SELECT due_at FROM webhooks.delivery WHERE status = 'pending' AND ${lane}`;

/** @param now milliseconds since 1970 */
export async function countDeliveries(pool: pg.Pool, now: number): Promise<DeliveryCounts> {
  const { rows } = await pool.query<{ pending: bigint; due: bigint; failed: bigint }>({
    name: "count deliveries",
    // Only the lanes have indexes of pending deliveries.
    text: `SELECT count(*) AS pending, count(*) FILTER (WHERE due_at <= $1) AS due,
                  (SELECT count(*) FROM (SELECT FROM webhooks.delivery WHERE status = 'failed' LIMIT ${MAX_COUNT}) f) AS failed
             FROM (${Object.values(IN_LANE).map(pendingIn).join(" UNION ALL ")} LIMIT ${MAX_COUNT}) d`,
    values: [toInstant(now)],
  });
  const { pending, due, failed } = rows[0] ?? {};
  return { pending: Number(pending ?? 0), due: Number(due ?? 0), failed: Number(failed ?? 0) };
}
