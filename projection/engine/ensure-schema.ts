import type pg from "pg";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { buildReadModelDdl } from "./ddl.ts";
import type { AnyReadModel } from "./read-model.ts";

/**
 * Creates the read models if the database has none. Leaves read models of another release unchanged: the projectors
 * stand by until a rebuild. If several processes start at the same time, a lock makes them run one after another.
 */
export async function ensureReadModels(pool: pg.Pool, models: readonly AnyReadModel[]): Promise<void> {
  const connection = await pool.connect();
  try {
    await connection.query("BEGIN");
    await connection.query("SELECT pg_advisory_xact_lock(hashtextextended('read model schema', 0))");
    const { rows } = await connection.query<{ found: boolean }>("SELECT to_regclass($1) IS NOT NULL AS found", [
      `${READ_MODEL_SCHEMA}.checkpoint`,
    ]);
    if (!rows[0]?.found) await connection.query(buildReadModelDdl(models));
    await connection.query("COMMIT");
  } catch (error) {
    // On a broken connection, the rollback fails, but the server rolls back anyway. Only the original error matters.
    await connection.query("ROLLBACK").catch(() => undefined);
    throw error;
  } finally {
    connection.release();
  }
}
