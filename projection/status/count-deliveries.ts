import type pg from "pg";
import { toInstant } from "../../shared/time/rfc3339.ts";

/** Looked at, at the most: counting must cost little. */
const MOST = 100_000;

/** Webhook deliveries that are under way, and of them those that are due; up to a hundred thousand. */
export async function countDeliveries(pool: pg.Pool, now: number): Promise<{ pending: number; due: number }> {
  const { rows } = await pool.query<{ pending: bigint; due: bigint }>({
    name: "count deliveries",
    text: `SELECT count(*) AS pending, count(*) FILTER (WHERE due_at <= $1) AS due
             FROM (SELECT due_at FROM webhooks.delivery WHERE status = 'pending' LIMIT ${MOST}) d`,
    values: [toInstant(now)],
  });
  return { pending: Number(rows[0]?.pending ?? 0), due: Number(rows[0]?.due ?? 0) };
}
