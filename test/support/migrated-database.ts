import pg from "pg";
import { pino } from "pino";
import { markFilled } from "../../projection/checkpoints/checkpoint.ts";
import { ensureReadModels, migrate } from "../../projection/prepare-database.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createTestPool } from "./connections.ts";
import { useResource } from "./resources.ts";
import { createTestDatabase, type TestDatabase } from "./stack.ts";

/** Names of the template databases. Copying a template is cheaper than running the migrations. */
const templatePromises: { migrated?: Promise<string>; withReadModels?: Promise<string> } = {};

/** Creates a database on the shared Postgres with all migrations applied. */
export async function createMigratedDatabase(): Promise<TestDatabase> {
  templatePromises.migrated ??= createTemplate(async () => undefined);
  return createTestDatabase(await templatePromises.migrated);
}

/**
 * Creates a database on the shared Postgres with all migrations and empty read models. The read models count as filled,
 * because many tests write rows directly.
 */
export async function createDatabaseWithReadModels(): Promise<TestDatabase> {
  templatePromises.withReadModels ??= createTemplate(async (url) => {
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    await ensureReadModels(pool, readModels);
    await markFilled(pool, READ_MODEL_SCHEMA);
    await pool.end();
  });
  return createTestDatabase(await templatePromises.withReadModels);
}

/** Before a test suite, creates a database with all migrations, and a pool with the rights of the tables' owner. */
export const useMigratedDatabase = () =>
  useResource(async () => {
    const { urls } = await createMigratedDatabase();
    return { pool: createTestPool(urls.projection, { size: 1 }) };
  });

async function createTemplate(fill: (url: string) => Promise<void>): Promise<string> {
  const { name, urls } = await createTestDatabase();
  await migrate(urls.projection, pino({ enabled: false }));
  await fill(urls.projection);
  return name;
}
