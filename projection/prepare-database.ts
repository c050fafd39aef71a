import { readdir } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { runner } from "node-pg-migrate";
import type pg from "pg";
import { formatCommandLine } from "../shared/command-line/format-command-line.ts";
import { createClient } from "../shared/postgres/client.ts";
import { TRANSACTION_PAUSE_LIMIT_MS } from "../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../shared/postgres/read-model-schema.ts";
import { isPostgresUnavailable, isRightMissing } from "../shared/runtime/failures.ts";
import type { Logger } from "../shared/runtime/logger.ts";
import { ServerUnavailableError, StartError } from "../shared/runtime/run-service.ts";
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

const MIGRATION_TABLE = "migration";

async function readMigrationNames(): Promise<string[]> {
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
    await limitIdleTransactions(dbClient, logger);
    return migrations.map(({ name }) => name);
  } finally {
    await dbClient.end();
  }

  function ignoreMessage(): void {}
}

/**
 * Limits the time for which a transaction of any login may be idle. Otherwise a transaction that a human has forgotten
 * would keep its locks and stop the projectors. A backup of the database does not contain this setting, so each
 * migration sets it.
 */
async function limitIdleTransactions(client: pg.Client, logger: Logger): Promise<void> {
  try {
    await client.query(`DO $$ BEGIN
      PERFORM pg_advisory_xact_lock(hashtextextended('settings of the database', 0));
      EXECUTE format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = ${TRANSACTION_PAUSE_LIMIT_MS}', current_database());
    END $$`);
  } catch (error) {
    if (!isRightMissing(error)) throw error;
    logger.warn("The role does not own the database, so idle transactions of other logins have no time limit.");
  }
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

/**
 * Checks that all migrations of this release have been applied and that the read models exist. A database that a later
 * release has migrated is accepted too.
 * @throws {ServerUnavailableError} if the database is unavailable
 * @throws {StartError} if the database refuses the connection or is not prepared
 */
export async function requirePreparedDatabase(pool: pg.Pool): Promise<void> {
  const isPrepared = await checkPreparation(pool).catch((error) => {
    throw toDatabaseError("The database is unavailable.", error);
  });
  if (isPrepared) return;
  throw new StartError(
    `The database is not prepared for this release. Run \`${formatCommandLine("projection migrate")}\` of this release.`,
  );
}

/**
 * Converts an error of Postgres to an error for operators.
 *
 * @param problem first sentence of the new error message
 */
export function toDatabaseError(problem: string, error: NodeJS.ErrnoException): StartError {
  const ErrorClass = isPostgresUnavailable(error) ? ServerUnavailableError : StartError;
  return new ErrorClass(`${problem} Check DATABASE_URL. (${error.message || error.code})`);
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
