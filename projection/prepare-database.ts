import { readdir } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { runner } from "node-pg-migrate";
import type pg from "pg";
import { createClient } from "../shared/postgres/client.ts";
import { READ_MODEL_SCHEMA } from "../shared/postgres/read-model-schema.ts";
import type { Logger } from "../shared/runtime/logger.ts";
import { buildReadModelDdl } from "./engine/ddl.ts";
import type { AnyReadModel } from "./engine/read-model.ts";
import { readModels } from "./read-models/all.ts";

/**
 * Prepares the database for this release: applies the new migrations, and creates the read models if there are none.
 * Changes nothing if the database is already prepared. Several processes can call this function at the same time.
 *
 * @returns the names of the applied migrations
 * @throws the error of Postgres if a migration fails
 */
export async function prepareDatabase(databaseUrl: string, pool: pg.Pool, logger: Logger): Promise<string[]> {
  const appliedMigrations = await migrate(databaseUrl, logger);
  await ensureReadModels(pool, readModels);
  return appliedMigrations;
}

const MIGRATIONS_FOLDER = fileURLToPath(new URL("./migrations", import.meta.url));

export const MIGRATION_TABLE = "migration";

export async function readMigrationNames(): Promise<string[]> {
  return (await readdir(MIGRATIONS_FOLDER)).map((file) => basename(file, ".sql"));
}

/**
 * Applies all new migrations in order, in one transaction. If several processes start at the same time, one process
 * applies the migrations while the others wait.
 *
 * @param folder folder with the migrations
 * @returns the names of the applied migrations
 * @throws the error of Postgres if a migration fails
 */
export async function migrate(databaseUrl: string, logger: Logger, folder = MIGRATIONS_FOLDER): Promise<string[]> {
  const dbClient = createClient(databaseUrl, { connectionTimeoutMillis: 5_000 });
  await dbClient.connect();
  try {
    const migrations = await runner({
      dbClient,
      dir: folder,
      direction: "up",
      migrationsTable: MIGRATION_TABLE,
      singleTransaction: true,
      advisoryLockMode: "wait",
      logger: {
        debug: ignoreMessage,
        info: ignoreMessage,
        warn: (text) => logger.warn(text),
        error: (text) => logger.error(text),
      },
    });
    return migrations.map(({ name }) => name);
  } finally {
    await dbClient.end();
  }

  function ignoreMessage(): void {}
}

/**
 * Creates the read models if the database has none. Leaves read models of another release unchanged: the projectors
 * stand by until a rebuild. If several processes start at the same time, a lock makes them run one after another.
 */
export async function ensureReadModels(pool: pg.Pool, models: readonly AnyReadModel[]): Promise<void> {
  await pool.query(
    `DO $$ BEGIN
       PERFORM pg_advisory_xact_lock(hashtextextended('read model schema', 0));
       IF to_regclass('${READ_MODEL_SCHEMA}.checkpoint') IS NULL THEN
         ${buildReadModelDdl(models)}
       END IF;
     END $$`,
  );
}
