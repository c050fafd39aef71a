import { pino } from "pino";
import { migrate } from "../../projection/migrate.ts";
import { createTestDatabase, type TestDatabase } from "./stack.ts";

/** Creates a database on the shared Postgres with everything that migrations make, rate-limit counters among it. */
export async function createMigratedDatabase(): Promise<TestDatabase> {
  const database = await createTestDatabase();
  await migrate(database.urls.projection, pino({ enabled: false }));
  return database;
}
