import { randomBytes, randomUUID } from "node:crypto";
import type pg from "pg";
import type { Person, PersonalDataCategory, PersonType } from "../domain/personal-data/person.ts";
import { createBatcher } from "../runtime/batches.ts";
import { isPostgresUnavailable, isTableMissing } from "../runtime/failures.ts";
import {
  type DataKey,
  DataKeyError,
  type DataKeyOwner,
  type DataKeys,
  describeOwner,
  KeyStoreUnavailableError,
  type StoredDataKey,
} from "./data-keys.ts";
import type { MasterKeys } from "./master-keys.ts";

const DATA_KEY_BYTES = 32;

/** Maximum number of owners in one statement, and of waiting requests for keys. */
const BATCH_LIMITS = { maxBatchSize: 500, maxWaitingItems: 100_000 };

/** Maximum number of attempts to create a key that other processes destroy at the same time. */
const MAX_ATTEMPTS = 5;

export interface KeyRow {
  id: string;
  personType: PersonType;
  personId: string;
  category: PersonalDataCategory;
  wrappedKey: Buffer;
  masterKeyId: string;
}

export const KEY_COLUMNS = `id, person_type AS "personType", person_id AS "personId", category,
  wrapped_key AS "wrappedKey", master_key_id AS "masterKeyId"`;

// The statements have no names, so that Postgres plans each execution. A plan that was made while the table was small
// would keep scanning the whole table as it grows.
const FIND_BY_OWNER = `SELECT ${KEY_COLUMNS} FROM data_keys.data_key
    JOIN unnest($1::text[], $2::uuid[], $3::text[]) AS owner (person_type, person_id, category)
      USING (person_type, person_id, category)
    WHERE destroyed_at IS NULL`;

const INSERT = `INSERT INTO data_keys.data_key (person_type, person_id, category, id, wrapped_key, master_key_id)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::uuid[], $5::bytea[], $6::text[])
    ON CONFLICT (person_type, person_id, category) WHERE destroyed_at IS NULL DO NOTHING RETURNING id`;

const FIND_BY_ID = `SELECT ${KEY_COLUMNS}, destroyed_at IS NOT NULL AS "isDestroyed"
    FROM data_keys.data_key WHERE id = ANY ($1::uuid[])`;

/**
 * Creates the store of data keys in Postgres. Concurrent requests for keys share their statements. A key that cannot be
 * used causes an error only in the requests for this key.
 */
export function createDataKeyStore(pool: pg.Pool, masterKeys: MasterKeys): DataKeys {
  const addToBatch = createBatcher<DataKeyOwner, DataKey | DataKeyError>(BATCH_LIMITS);
  const addSearchToBatch = createBatcher<readonly string[], ReadonlyMap<string, StoredDataKey>>(BATCH_LIMITS);

  async function query<Row extends pg.QueryResultRow>(statement: pg.QueryConfig): Promise<Row[]> {
    const send = async () => (await pool.query<Row>(statement)).rows;
    try {
      // After a failover, the first query of each connection fails. All statements can be repeated.
      return await send().catch((error: unknown) => {
        if (isPostgresUnavailable(error)) return send();
        throw error;
      });
    } catch (error) {
      throw toKeyStoreError(error);
    }
  }

  /** Finds or creates the keys of owners. Creates all missing keys with one statement. */
  async function getOrCreateAll(owners: readonly DataKeyOwner[]): Promise<(DataKey | DataKeyError)[]> {
    // All processes insert in the same order, so that they cannot block each other.
    const ownersByName = new Map(owners.map((owner) => [describeOwner(owner), owner] as const).sort(compareNames));
    const keysByOwner = new Map<string, DataKey | DataKeyError>();
    const listOwnersWithoutKey = () =>
      [...ownersByName].flatMap(([name, owner]) => (keysByOwner.has(name) ? [] : [owner]));
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const rows = await query<KeyRow>({ text: FIND_BY_OWNER, values: toColumns(listOwnersWithoutKey()) });
      for (const row of rows) {
        const key = unwrapRow(masterKeys, row);
        keysByOwner.set(describeOwner(getOwner(row)), key instanceof DataKeyError ? key : { id: row.id, key });
      }
      const newOwners = listOwnersWithoutKey();
      if (newOwners.length > 0)
        for (const [owner, dataKey] of await insertKeys(newOwners)) keysByOwner.set(owner, dataKey);
      if (keysByOwner.size === ownersByName.size)
        return owners.map((owner) => keysByOwner.get(describeOwner(owner)) as DataKey | DataKeyError);
    }
    throw new KeyStoreUnavailableError("other processes keep destroying the data keys that this process creates");
  }

  /** Finds the keys for several searches with one statement. Each search gets the keys of all searches. */
  async function findAll(searches: (readonly string[])[]): Promise<ReadonlyMap<string, StoredDataKey>[]> {
    const rows = await query<KeyRow & { isDestroyed: boolean }>({ text: FIND_BY_ID, values: [searches.flat()] });
    const keys = new Map<string, StoredDataKey>();
    for (const row of rows) keys.set(row.id, row.isDestroyed ? "destroyed" : unwrapRow(masterKeys, row));
    return searches.map(() => keys);
  }

  async function insertKeys(owners: readonly DataKeyOwner[]): Promise<[string, DataKey][]> {
    const newKeys = owners.map((owner) => {
      const id = randomUUID();
      const key = randomBytes(DATA_KEY_BYTES);
      return { id, key, owner, ...masterKeys.wrap(id, owner, key) };
    });
    const keyColumns = [
      newKeys.map(({ id }) => id),
      newKeys.map(({ wrappedKey }) => wrappedKey),
      newKeys.map(({ masterKeyId }) => masterKeyId),
    ];
    const rows = await query<{ id: string }>({ text: INSERT, values: [...toColumns(owners), ...keyColumns] });
    const insertedIds = new Set(rows.map(({ id }) => id));
    return newKeys.flatMap(({ id, key, owner }) =>
      insertedIds.has(id) ? [[describeOwner(owner), { id, key }] as [string, DataKey]] : [],
    );
  }

  return {
    async getOrCreate(owners) {
      const dataKeys = await Promise.all(owners.map((owner) => addToBatch("owners", owner, getOrCreateAll)));
      return dataKeys.map(requireUsable);
    },

    find: async (ids) => (ids.length === 0 ? new Map() : addSearchToBatch("ids", ids, findAll)),
  };
}

export function getOwner({ personType, personId, category }: KeyRow): DataKeyOwner {
  return { person: { type: personType, id: personId }, category };
}

/** Unwraps a stored key. Returns a {@link DataKeyError} instead of throwing it, so that a batch can continue. */
export function unwrapRow(masterKeys: MasterKeys, row: KeyRow): Buffer | DataKeyError {
  try {
    return masterKeys.unwrap(row.id, getOwner(row), row);
  } catch (error) {
    if (error instanceof DataKeyError) return error;
    throw error;
  }
}

function requireUsable(dataKey: DataKey | DataKeyError): DataKey {
  if (dataKey instanceof DataKeyError) throw dataKey;
  return dataKey;
}

function toColumns(owners: readonly DataKeyOwner[]): string[][] {
  return [
    owners.map(({ person }) => person.type),
    owners.map(({ person }) => person.id),
    owners.map(({ category }) => category),
  ];
}

function compareNames([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

/**
 * Converts the error of a statement to a {@link KeyStoreUnavailableError} if the store is unavailable. Returns any other
 * error unchanged.
 */
export function toKeyStoreError(error: unknown): unknown {
  if (error instanceof DataKeyError) return error;
  if (isPostgresUnavailable(error))
    return new KeyStoreUnavailableError("the store of data keys (Postgres) is unavailable", { cause: error });
  if (isTableMissing(error)) {
    const problem = "the database has no table data_keys.data_key; run `clinic projection migrate` of this release";
    return new KeyStoreUnavailableError(problem, { cause: error });
  }
  return error;
}

const DESTROY_SQL =
  "UPDATE data_keys.data_key SET wrapped_key = NULL, master_key_id = NULL, destroyed_at = now() WHERE destroyed_at IS NULL";

/**
 * Destroys the keys of a person irrevocably.
 *
 * @param categories categories of the keys; all categories if null
 * @returns number of keys that existed and are now destroyed
 */
export async function destroyKeysOf(
  pool: pg.Pool,
  { type, id }: Person,
  categories: readonly PersonalDataCategory[] | null,
): Promise<number> {
  const { rowCount } = await pool.query(
    `${DESTROY_SQL} AND person_type = $1 AND person_id = $2 AND ($3::text[] IS NULL OR category = ANY ($3))`,
    [type, id, categories],
  );
  return rowCount ?? 0;
}

export async function destroyKeys(pool: pg.Pool, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0;
  return (await pool.query(`${DESTROY_SQL} AND id = ANY ($1::uuid[])`, [ids])).rowCount ?? 0;
}
