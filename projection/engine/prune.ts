import type pg from "pg";
import { tryLock } from "../../shared/postgres/leadership.ts";
import { getReadModelLockName } from "../../shared/postgres/read-model-lock.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { isFilled } from "../checkpoints/checkpoint.ts";
import { listReferencedReadModels } from "../checkpoints/webhook-checkpoints.ts";
import { dropSchema, runWhenUnlocked, withMaintenanceLock } from "./maintenance.ts";
import type { AnyReadModel } from "./read-model.ts";
import { FORMER_SCHEMA, NEXT_SCHEMA } from "./rebuild.ts";
import { SCRATCH_SCHEMA } from "./verify.ts";

const OWN_SCHEMAS = [READ_MODEL_SCHEMA, NEXT_SCHEMA, FORMER_SCHEMA, SCRATCH_SCHEMA];

/**
 * Time for which no process may use the read models before they are dropped. Within this time, a process that has lost
 * its connection connects again, for example after a failover of Postgres.
 */
const UNUSED_MS = 5_000;

const CHECK_INTERVAL_MS = 200;

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
 * Drops the read models that other releases have built, except read models to which a webhook checkpoint still belongs.
 *
 * @param unusedMs time for which the read models must be unused before they are dropped, in milliseconds
 * @returns the names of the dropped schemas
 * @throws {StartError} if a process of another release still runs, or if the read models of this release are not filled
 */
export async function pruneReadModels(pool: pg.Pool, signal: AbortSignal, unusedMs = UNUSED_MS): Promise<string[]> {
  if (!(await isFilled(pool, READ_MODEL_SCHEMA))) {
    throw new StartError("The read models of this release are not filled yet, so the other read models are kept.");
  }
  return withMaintenanceLock(pool, async (connection) => {
    const referencedSchemas = await listReferencedReadModels(connection);
    const otherSchemas = await listOtherReadModels(connection);
    const schemas = otherSchemas.filter((schema) => !referencedSchemas.includes(schema));
    await lockUnused(connection, schemas, unusedMs, signal);
    for (const schema of schemas) await dropSchema(connection, schema, signal);
    return signal.aborted ? [] : schemas;
  });
}

/**
 * Locks schemas, and checks for `unusedMs` that no other process uses them. The locks are freed with the maintenance
 * lock.
 *
 * @throws {StartError} if another process holds the lock of a schema, or waits for the lock
 */
async function lockUnused(
  connection: pg.ClientBase,
  schemas: readonly string[],
  unusedMs: number,
  signal: AbortSignal,
): Promise<void> {
  if (schemas.length === 0) return;
  const endsAt = performance.now() + unusedMs;
  for (;;) {
    let isLocked = true;
    for (const schema of schemas) isLocked &&= await tryLock(connection, getReadModelLockName(schema));
    await requireNoUsers(connection, schemas);
    if (signal.aborted || (isLocked && performance.now() >= endsAt)) return;
    await pause(CHECK_INTERVAL_MS, signal);
  }
}

async function requireNoUsers(connection: pg.ClientBase, schemas: readonly string[]): Promise<void> {
  const { rows } = await connection.query<{ process: string; schema: string }>(
    `SELECT DISTINCT application_name AS process, schema
       FROM unnest($1::text[], $2::text[]) AS used (schema, lock_name)
       JOIN pg_locks ON locktype = 'advisory' AND objsubid = 1
        AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(lock_name, 0)
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
       JOIN pg_stat_activity USING (pid)
      WHERE pid <> pg_backend_pid()
      ORDER BY schema, process`,
    [schemas, schemas.map(getReadModelLockName)],
  );
  if (rows.length === 0) return;
  const users = rows.map(({ process, schema }) => `${process} (${schema})`);
  throw new StartError(
    `Processes of other releases still use their read models: ${users.join(", ")}. Stop these processes first.`,
  );
}

/**
 * Tables outside the read models that held erased data: the destroyed data keys, and samples of column values for the
 * query planner.
 */
const OTHER_TABLES = ["data_keys.data_key", "pg_catalog.pg_statistic"];

/**
 * Rewrites all tables that held erased data, because Postgres keeps obsolete row versions in a table's files. Each
 * table is locked while it is rewritten. A rewrite starts only when no query uses the table.
 *
 * @param onRewritten called after each table
 * @throws {StartError} if a rebuild, verify, prune or another scrub is running
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
    for (const table of tables) {
      // The planner's samples are replaced by samples of the current rows. The table of samples comes last.
      const options = table === "pg_catalog.pg_statistic" ? "FULL" : "FULL, ANALYZE";
      await runWhenUnlocked(connection, `VACUUM (${options}) ${table}`, signal);
      if (signal.aborted) return;
      onRewritten(table);
    }
  });
}
