import pg from "pg";
import type { Person, PersonalDataCategory } from "../../shared/domain/personal-data/person.ts";
import { createDataKeys, type ReportMissingKeys } from "../../shared/personal-data/create-data-keys.ts";
import { destroyKeysOf } from "../../shared/personal-data/data-key-store.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { createMigratedDatabase } from "./migrated-database.ts";
import type { TestDatabase } from "./stack.ts";

const masterKeys = { current: "test", keys: { test: Buffer.alloc(32, 7).toString("base64") } };

/** Value of PERSONAL_DATA_KEYS. All tests use the same master key. */
export const PERSONAL_DATA_KEYS = JSON.stringify(masterKeys);

/** Data keys that a test can list and destroy. */
export interface TestDataKeys extends DataKeys {
  /** Destroys the keys of a person, by default of all categories. Returns the number of destroyed keys. */
  destroy(person: Person, categories?: readonly PersonalDataCategory[]): Promise<number>;
  /** Lists the existing and destroyed keys of a person, oldest first. */
  listOf(person: Person): Promise<{ id: string; category: string; destroyedAt: Date | null }[]>;
}

/** Creates data keys in a database. Services with the master key of the tests can use them. */
export function createTestDataKeys(pool: pg.Pool, reportMissingKeys?: ReportMissingKeys): TestDataKeys {
  const create = () => createDataKeys(pool, { PERSONAL_DATA_KEYS: masterKeys }, reportMissingKeys);
  let dataKeys = create();
  return {
    getOrCreate: (owners) => dataKeys.getOrCreate(owners),
    find: (ids) => dataKeys.find(ids),
    async destroy(person, categories) {
      const count = await destroyKeysOf(pool, person, categories ?? null);
      dataKeys = create(); // The former ones have the destroyed keys in their cache.
      return count;
    },
    listOf: (person) => listKeys(pool, person),
  };
}

export async function listKeys(pool: pg.Pool, { type, id }: Person): ReturnType<TestDataKeys["listOf"]> {
  const statement = `SELECT id, category, destroyed_at AS "destroyedAt" FROM data_keys.data_key
    WHERE person_type = $1 AND person_id = $2 ORDER BY created_at, category`;
  return (await pool.query(statement, [type, id])).rows;
}

let sharedKeysPromise: Promise<TestDataKeys> | undefined;
let databasePromise: Promise<TestDatabase> | undefined;

/** Returns settings for the database of `sharedDataKeys`. */
export async function getDataKeySettings(): Promise<{ DATABASE_URL: string; PERSONAL_DATA_KEYS: string }> {
  databasePromise ??= createMigratedDatabase();
  return { DATABASE_URL: (await databasePromise).urls.command, PERSONAL_DATA_KEYS };
}

/** Data keys in a database that all tests of this process share. The first use creates the database. */
export const sharedDataKeys: TestDataKeys = {
  getOrCreate: async (owners) => (await getSharedKeys()).getOrCreate(owners),
  find: async (ids) => (await getSharedKeys()).find(ids),
  destroy: async (person, categories) => (await getSharedKeys()).destroy(person, categories),
  listOf: async (person) => (await getSharedKeys()).listOf(person),
};

function getSharedKeys(): Promise<TestDataKeys> {
  sharedKeysPromise ??= getDataKeySettings().then(({ DATABASE_URL }) => {
    const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 2, allowExitOnIdle: true });
    // The server ends before the process does.
    pool.on("error", () => undefined);
    return createTestDataKeys(pool);
  });
  return sharedKeysPromise;
}
