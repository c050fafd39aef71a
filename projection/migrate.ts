import { readdir } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { runner } from "node-pg-migrate";
import { createClient } from "../shared/postgres/client.ts";
import type { Logger } from "../shared/runtime/logger.ts";

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
