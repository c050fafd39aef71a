import type pg from "pg";
import { StartError } from "../../shared/runtime/run-service.ts";
import { passedOverDdl, READ_MODEL_SCHEMA, readModelDdl, shapeOf } from "./ddl.ts";
import type { AnyReadModel } from "./read-model.ts";

/**
 * Creates the read models where there are none yet. Several processes may start at once: a lock in the transaction
 * makes the others wait.
 *
 * @throws {StartError} where the tables that are there have another shape than the code
 */
export async function ensureReadModels(pool: pg.Pool, models: readonly AnyReadModel[]): Promise<void> {
  const connection = await pool.connect();
  try {
    await connection.query("BEGIN");
    await connection.query("SELECT pg_advisory_xact_lock(hashtextextended('read model schema', 0))");
    const { rows } = await connection.query<{ found: boolean }>(
      "SELECT to_regclass($1) IS NOT NULL AS found",
      [`${READ_MODEL_SCHEMA}.checkpoint`],
    );
    if (rows[0]?.found) {
      await compareShape(connection, models);
      await connection.query(passedOverDdl(READ_MODEL_SCHEMA));
    } else await connection.query(readModelDdl(models));
    await connection.query("COMMIT");
  } catch (error) {
    await connection.query("ROLLBACK").catch(() => undefined);
    throw error;
  } finally {
    connection.release();
  }
}

async function compareShape(connection: pg.PoolClient, models: readonly AnyReadModel[]): Promise<void> {
  const { rows } = await connection.query<{ shape: string }>(
    `SELECT shape FROM ${READ_MODEL_SCHEMA}.checkpoint`,
  );
  if (rows[0]?.shape !== shapeOf(models)) {
    throw new StartError(
      "the read models in the database have another shape than this release's: `npm run projection -- rebuild` builds them anew beside those that serve; start again when it is done",
    );
  }
}
