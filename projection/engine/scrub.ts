import type pg from "pg";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { LOCK_RETRY_INTERVAL_MS, LOCK_TIMEOUT_MS, runIfLockable, withMaintenanceLock } from "./maintenance.ts";
import type { AnyReadModel } from "./read-model.ts";

/**
 * Tables outside the read models that held erased data: the destroyed data keys, and samples of column values for the
 * query planner.
 */
const OTHER_TABLES = ["data_keys.data_key", "pg_catalog.pg_statistic"];

/**
 * Rewrites all tables that held erased data, because Postgres keeps obsolete row versions in a table's files. Each table
 * is locked while it is rewritten. A rewrite starts only when no query uses the table.
 * @param onRewritten called after each table
 * @throws {StartError} if a rebuild or another scrub is running
 */
export async function scrub(
  pool: pg.Pool,
  models: readonly AnyReadModel[],
  signal: AbortSignal,
  onRewritten: (table: string) => void,
): Promise<void> {
  const readModelTables = models.filter(({ personalColumns }) => personalColumns).map(({ table }) => table);
  const tables = [...readModelTables.map((table) => `${READ_MODEL_SCHEMA}.${table}`), ...OTHER_TABLES];
  await withMaintenanceLock(pool, async (connection) => {
    await connection.query(`SET lock_timeout = ${LOCK_TIMEOUT_MS}`);
    for (const table of tables) {
      // The planner's samples are replaced by samples of the current rows. The table of samples comes last.
      const options = table === "pg_catalog.pg_statistic" ? "FULL" : "FULL, ANALYZE";
      while (!signal.aborted && !(await runIfLockable(connection, `VACUUM (${options}) ${table}`))) {
        await pause(LOCK_RETRY_INTERVAL_MS, signal);
      }
      if (signal.aborted) return;
      onRewritten(table);
    }
  });
}
