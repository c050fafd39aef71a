import { LRUCache } from "lru-cache";
import type pg from "pg";
import type { Config } from "../runtime/config.ts";
import { createDataKeyStore } from "./data-key-store.ts";
import { type DataKey, type DataKeyOwner, type DataKeys, describeOwner, type StoredDataKey } from "./data-keys.ts";
import { createMasterKeys } from "./master-keys.ts";

/** Reports the ids of keys that the store should hold, but does not. Called at most once for each search. */
export type ReportMissingKeys = (ids: readonly string[]) => void;

/** Creates a store of data keys in Postgres, with a cache. */
export function createDataKeys(
  pool: pg.Pool,
  config: Config<"PERSONAL_DATA_KEYS">,
  reportMissingKeys?: ReportMissingKeys,
): DataKeys {
  return cacheDataKeys(createUncachedDataKeys(pool, config, reportMissingKeys));
}

/**
 * Creates a store of data keys in Postgres, without a cache, for projectors. They read the keys of a batch of events
 * with one query, and rarely need a key again.
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
 * Creates a store of data keys that calls `create` at its first use. A command that reads no personal data therefore
 * needs no master keys. Each method throws what `create` throws.
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
  };
}

/** Limits of each cache: 10 MiB, which is about 10,000 entries. */
const CACHE_LIMITS = { maxSize: 10 * 1024 * 1024, sizeCalculation: () => 1_000 };

/**
 * Time for which a cached key is used without another check of the store. After the key's destruction, no process can
 * read the person's data for longer than this time. Milliseconds.
 */
export const KEY_CACHE_MS = 5_000;

interface CachedKey {
  dataKey: DataKey;
  /** Time of the last check that the key is not destroyed, by the clock of the cache. Milliseconds. */
  checkedAt: number;
}

/**
 * Adds a cache of limited size to a store of data keys. A call checks all its missing and expired keys with one call of
 * the store. Only usable keys are cached.
 *
 * @param clock monotonic clock in milliseconds
 */
export function cacheDataKeys(store: DataKeys, clock: () => number = () => performance.now()): DataKeys {
  const keysById = new LRUCache<string, CachedKey>(CACHE_LIMITS);
  const idsByOwner = new LRUCache<string, string>(CACHE_LIMITS);

  // The expiry of lru-cache uses its own clock, and keeps an entry from time 0 forever.
  function getFresh(id: string): DataKey | undefined {
    const cachedKey = keysById.get(id);
    return cachedKey && clock() - cachedKey.checkedAt < KEY_CACHE_MS ? cachedKey.dataKey : undefined;
  }

  return {
    async getOrCreate(owners) {
      const cachedKeys = owners.map((owner) => getFresh(idsByOwner.get(describeOwner(owner)) ?? ""));
      const missingOwners = owners.filter((_, index) => !cachedKeys[index]);
      if (missingOwners.length === 0) return cachedKeys as DataKey[];
      const checkedAt = clock();
      const foundKeys = await store.getOrCreate(missingOwners);
      for (const [index, dataKey] of foundKeys.entries()) {
        idsByOwner.set(describeOwner(missingOwners[index] as DataKeyOwner), dataKey.id);
        keysById.set(dataKey.id, { dataKey, checkedAt });
      }
      const remainingKeys = foundKeys.values();
      return cachedKeys.map((dataKey) => dataKey ?? (remainingKeys.next().value as DataKey));
    },

    async find(ids) {
      const keys = new Map<string, StoredDataKey>();
      const missingIds = new Set<string>();
      for (const id of ids) {
        const dataKey = getFresh(id);
        if (dataKey) keys.set(id, dataKey.key);
        else missingIds.add(id);
      }
      if (missingIds.size === 0) return keys;
      const checkedAt = clock();
      const foundKeys = await store.find([...missingIds]);
      for (const id of missingIds) {
        const key = foundKeys.get(id);
        if (key) keys.set(id, key);
        if (key instanceof Buffer) keysById.set(id, { dataKey: { id, key }, checkedAt });
        else keysById.delete(id);
      }
      return keys;
    },
  };
}
