import type pg from "pg";
import type { Terminal } from "../../shared/command-line/terminal.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { isPostgresUnavailable } from "../../shared/postgres/unavailable.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { ServerUnavailableError, StartError } from "../../shared/runtime/run-service.ts";
import { isFilled } from "../checkpoints/checkpoint.ts";
import { prepareDatabase } from "../prepare-database.ts";

/**
 * Prepares the database for this release, and prints the applied migrations.
 *
 * @returns the exit code
 * @throws {ServerUnavailableError} if the database is unavailable
 * @throws {StartError} if a migration fails
 */
export async function migrateDatabase(
  { databaseUrl, pool, logger }: { databaseUrl: string; pool: pg.Pool; logger: Logger },
  terminal: Pick<Terminal, "writeOutput">,
): Promise<number> {
  const migrations = await prepareDatabase(databaseUrl, pool, logger).catch((error) => {
    const ErrorClass = isPostgresUnavailable(error) ? ServerUnavailableError : StartError;
    throw new ErrorClass(`The database cannot be migrated. Check DATABASE_URL. (${error.message || error.code})`);
  });
  for (const name of migrations) await terminal.writeOutput(`Applied ${name}.`);
  await terminal.writeOutput("The database is prepared for this release.");
  if (!(await isFilled(pool, READ_MODEL_SCHEMA))) {
    await terminal.writeOutput(
      "The read models are not filled yet. The projection service of this release fills them.",
    );
  }
  return 0;
}
