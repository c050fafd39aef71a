import type pg from "pg";
import type { Logger } from "../shared/runtime/logger.ts";
import { ensureReadModels } from "./engine/ensure-schema.ts";
import { migrate } from "./migrate.ts";
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
