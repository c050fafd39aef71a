import type pg from "pg";
import type { Config } from "../runtime/config.ts";
import { cacheDataKeys } from "./cached-data-keys.ts";
import { createDataKeyStore } from "./data-key-store.ts";
import type { DataKeys } from "./data-keys.ts";
import { createMasterKeys } from "./master-keys.ts";

/** Reports the ids of keys that the store should hold, but does not. Called at most once for each search. */
export type ReportMissingKeys = (ids: readonly string[]) => void;

/** Creates the data keys of a process: the store in Postgres with a cache. */
export function createDataKeys(
  pool: pg.Pool,
  config: Config<"PERSONAL_DATA_KEYS">,
  reportMissingKeys?: ReportMissingKeys,
): DataKeys {
  return cacheDataKeys(createUncachedDataKeys(pool, config, reportMissingKeys));
}

/**
 * Creates the data keys of projectors, without a cache. Projectors read the keys of a whole batch of events with one
 * query, and rarely need a key again.
 */
export function createUncachedDataKeys(
  pool: pg.Pool,
  { PERSONAL_DATA_KEYS }: Config<"PERSONAL_DATA_KEYS">,
  reportMissingKeys: ReportMissingKeys = () => undefined,
): DataKeys {
  const store = createDataKeyStore(pool, createMasterKeys(PERSONAL_DATA_KEYS));
  return {
    ...store,
    async find(ids) {
      const keys = await store.find(ids);
      const missingIds = ids.filter((id) => !keys.has(id));
      if (missingIds.length > 0) reportMissingKeys(missingIds);
      return keys;
    },
  };
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
