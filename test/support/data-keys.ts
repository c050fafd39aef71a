import pg from "pg";
import { createDataKeys, type ReportMissingKeys } from "../../shared/personal-data/create-data-keys.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { createMigratedDatabase } from "./migrated-database.ts";
import type { TestDatabase } from "./stack.ts";

const masterKeys = { current: "test", keys: { test: Buffer.alloc(32, 7).toString("base64") } };

/** Value of PERSONAL_DATA_KEYS for the services that a test starts. All tests use the same master key. */
export const PERSONAL_DATA_KEYS = JSON.stringify(masterKeys);

/** Creates the data keys that the services of a test share. */
export function createTestDataKeys(pool: pg.Pool, reportMissingKeys?: ReportMissingKeys): DataKeys {
  return createDataKeys(pool, { PERSONAL_DATA_KEYS: masterKeys }, reportMissingKeys);
}

let sharedKeysPromise: Promise<DataKeys> | undefined;
let databasePromise: Promise<TestDatabase> | undefined;

/** Returns the settings of a command whose data keys are in the database that the tests of a process share. */
export async function getDataKeySettings(): Promise<{ DATABASE_URL: string; PERSONAL_DATA_KEYS: string }> {
  databasePromise ??= createMigratedDatabase();
  return { DATABASE_URL: (await databasePromise).urls.command, PERSONAL_DATA_KEYS };
}

/** The data keys in the database that the tests of a process share. The first use creates it. */
export const sharedDataKeys: DataKeys = {
  getOrCreate: async (owners) => (await getSharedKeys()).getOrCreate(owners),
  find: async (ids) => (await getSharedKeys()).find(ids),
  destroy: async (person, categories) => (await getSharedKeys()).destroy(person, categories),
  listOf: async (person) => (await getSharedKeys()).listOf(person),
};

function getSharedKeys(): Promise<DataKeys> {
  sharedKeysPromise ??= getDataKeySettings().then(({ DATABASE_URL }) => {
    const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 2, allowExitOnIdle: true });
    // The server ends before the process does.
    pool.on("error", () => undefined);
    return createTestDataKeys(pool);
  });
  return sharedKeysPromise;
}
