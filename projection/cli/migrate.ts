import type pg from "pg";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { isFilled } from "../checkpoints/checkpoint.ts";
import { prepareDatabase } from "../prepare-database.ts";
import type { Terminal } from "./command.ts";

/**
 * Prepares the database for this release, and prints the applied migrations.
 *
 * @returns the exit code
 * @throws {StartError} if the database is unavailable or a migration fails
 */
export async function migrateDatabase(
  { databaseUrl, pool, logger }: { databaseUrl: string; pool: pg.Pool; logger: Logger },
  terminal: Pick<Terminal, "out">,
): Promise<number> {
  const migrations = await prepareDatabase(databaseUrl, pool, logger).catch((error) => {
    throw new StartError(`The database cannot be migrated. Check DATABASE_URL. (${error.message || error.code})`);
  });
  for (const name of migrations) terminal.out(`Applied ${name}.`);
  terminal.out("The database is prepared for this release.");
  if (!(await isFilled(pool, READ_MODEL_SCHEMA))) {
    terminal.out("The read models are not filled yet. The projection service of this release fills them.");
  }
  return 0;
}
