import type pg from "pg";
import type { Config } from "../runtime/config.ts";
import { cacheDataKeys } from "./cached-data-keys.ts";
import { createDataKeyStore } from "./data-key-store.ts";
import type { DataKeys } from "./data-keys.ts";
import { createMasterKeys } from "./master-keys.ts";

/** Creates the data keys of a process: the store in Postgres with a cache. */
export function createDataKeys(pool: pg.Pool, { PERSONAL_DATA_KEYS }: Config<"PERSONAL_DATA_KEYS">): DataKeys {
  return cacheDataKeys(createDataKeyStore(pool, createMasterKeys(PERSONAL_DATA_KEYS)));
}

/**
 * Creates the data keys at their first use. A command line that reads no personal data therefore needs no settings for
 * it. Each method throws what `create` throws.
 */
export function deferDataKeys(create: () => DataKeys): DataKeys {
  let dataKeys: DataKeys | undefined;
  const getDataKeys = () => {
    dataKeys ??= create();
    return dataKeys;
  };
  return {
    getOrCreate: async (owners) => getDataKeys().getOrCreate(owners),
    find: async (ids) => getDataKeys().find(ids),
    destroy: async (person, categories) => getDataKeys().destroy(person, categories),
    listOf: async (person) => getDataKeys().listOf(person),
  };
}
