import { fileURLToPath } from "node:url";
import { runner } from "node-pg-migrate";
import pg from "pg";
import type { Logger } from "../shared/runtime/logger.ts";

/**
 * Applies all new migrations in order, in one transaction. If several processes start at the same time, one process
 * applies the migrations while the others wait.
 *
 * @throws the error of Postgres if a migration fails
 */
export async function migrate(databaseUrl: string, logger: Logger): Promise<void> {
  const dbClient = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000 });
  await dbClient.connect();
  try {
    await runner({
      dbClient,
      dir: fileURLToPath(new URL("./migrations", import.meta.url)),
      direction: "up",
      migrationsTable: "migration",
      singleTransaction: true,
      advisoryLockMode: "wait",
      logger: {
        debug: ignoreMessage,
        info: ignoreMessage,
        warn: (text) => logger.warn(text),
        error: (text) => logger.error(text),
      },
    });
  } finally {
    await dbClient.end();
  }

  function ignoreMessage(): void {}
}
