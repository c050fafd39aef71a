import type { Pool } from "pg";

/**
 * Records that the read models of a schema have reached the end of the log. Until then, they contain states of the
 * past, so neither queries nor webhooks may use them.
 */
export async function markFilled(pool: Pool, schema: string): Promise<void> {
  await pool.query(`UPDATE ${schema}.checkpoint SET filled = true WHERE NOT filled`);
}

/** Returns true if the read models of a schema have ever reached the end of the log. */
export async function isFilled(pool: Pool, schema: string): Promise<boolean> {
  const { rows } = await pool.query<{ filled: boolean }>(`SELECT filled FROM ${schema}.checkpoint`);
  return rows[0]?.filled === true;
}
