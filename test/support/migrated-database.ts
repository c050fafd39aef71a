import { pino } from "pino";
import { migrate } from "../../projection/migrate.ts";
import { createTestDatabase, type TestDatabase } from "./stack.ts";

/** Creates a database on the shared Postgres and applies the migrations. */
export async function createMigratedDatabase(): Promise<TestDatabase> {
  const database = await createTestDatabase();
  await migrate(database.urls.projection, pino({ enabled: false }));
  return database;
}
