import type pg from "pg";
import { formatCommandLine } from "../shared/command-line/format-command-line.ts";
import { READ_MODEL_SCHEMA } from "../shared/postgres/read-model-schema.ts";
import { isPostgresUnavailable } from "../shared/postgres/unavailable.ts";
import { ServerUnavailableError, StartError } from "../shared/runtime/run-service.ts";
import { MIGRATION_TABLE, readMigrationNames } from "./prepare-database.ts";

/**
 * Checks that all migrations of this release have been applied and that the read models exist. A database that a later
 * release has migrated is accepted too.
 *
 * @throws {ServerUnavailableError} if the database is unavailable
 * @throws {StartError} if the database refuses the connection or is not prepared
 */
export async function requirePreparedDatabase(pool: pg.Pool): Promise<void> {
  const isPrepared = await checkPreparation(pool).catch((error) => {
    const ErrorClass = isPostgresUnavailable(error) ? ServerUnavailableError : StartError;
    throw new ErrorClass(`The database is unavailable. Check DATABASE_URL. (${error.message || error.code})`);
  });
  if (isPrepared) return;
  throw new StartError(
    `The database is not prepared for this release. Run \`${formatCommandLine("projection migrate")}\` of this release.`,
  );
}

async function checkPreparation(pool: pg.Pool): Promise<boolean> {
  const { rows } = await pool.query<{ hasTables: boolean }>(
    `SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL AS "hasTables"`,
    [MIGRATION_TABLE, `${READ_MODEL_SCHEMA}.checkpoint`],
  );
  return rows[0]?.hasTables === true && hasAllMigrations(pool);
}

async function hasAllMigrations(pool: pg.Pool): Promise<boolean> {
  const { rows } = await pool.query<{ name: string }>(`SELECT name FROM ${MIGRATION_TABLE}`);
  const appliedNames = new Set(rows.map(({ name }) => name));
  return (await readMigrationNames()).every((name) => appliedNames.has(name));
}
