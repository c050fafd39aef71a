import type pg from "pg";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { isFilled } from "../checkpoints/filled.ts";
import { withMaintenanceLock } from "./maintenance.ts";
import { getProjectorsLockName } from "./projectors.ts";
import { dropSchema, FORMER_SCHEMA, NEXT_SCHEMA } from "./swap.ts";
import { SCRATCH_SCHEMA } from "./verify.ts";

/** Schemas of this release. */
const OWN_SCHEMAS = [READ_MODEL_SCHEMA, NEXT_SCHEMA, FORMER_SCHEMA, SCRATCH_SCHEMA];

/** Lists the schemas with read models that other releases have built. */
export async function listOtherReadModels(db: pg.Pool | pg.ClientBase): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `SELECT nspname AS name FROM pg_namespace
      WHERE nspname LIKE 'read\\_model%' AND nspname <> ALL ($1) AND EXISTS (
        SELECT FROM pg_class WHERE relnamespace = pg_namespace.oid AND relname = 'checkpoint')
      ORDER BY nspname`,
    [OWN_SCHEMAS],
  );
  return rows.map(({ name }) => name);
}

/**
 * Drops the read models that other releases have built.
 *
 * @returns the names of the dropped schemas
 * @throws {StartError} if projectors of another release still run, or if the read models of this release are not filled
 */
export async function pruneReadModels(pool: pg.Pool, signal: AbortSignal): Promise<string[]> {
  if (!(await isFilled(pool, READ_MODEL_SCHEMA))) {
    throw new StartError("The read models of this release are not filled yet, so the other read models are kept.");
  }
  return withMaintenanceLock(pool, async (connection) => {
    const schemas = await listOtherReadModels(connection);
    for (const schema of schemas) await lockProjectors(connection, schema);
    for (const schema of schemas) await dropSchema(connection, schema, signal);
    return signal.aborted ? [] : schemas;
  });
}

/** Prevents that projectors use a schema. The lock is freed with the maintenance lock. */
async function lockProjectors(connection: pg.ClientBase, schema: string): Promise<void> {
  const { rows } = await connection.query<{ held: boolean }>(
    "SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS held",
    [getProjectorsLockName(schema)],
  );
  if (rows[0]?.held) return;
  throw new StartError(`The read models ${schema} are in use. Stop the projectors of their release first.`);
}
