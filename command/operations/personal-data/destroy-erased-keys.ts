import type pg from "pg";
import { destroyKeys } from "../../../shared/personal-data/data-key-store.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";

const MAX_KEYS = 1_000;

/** SQL expression: time when the erasure `e` last erased the category of the key `k`. */
const CATEGORY_ERASED_AT =
  "CASE k.category WHEN 'contact' THEN e.contact_erased_at WHEN 'animal' THEN e.animal_erased_at ELSE e.notes_erased_at END";

/**
 * SQL condition for keys `k` that an erasure `e` has destroyed. If no new data of the category can be recorded, every key
 * counts. Otherwise a key for new data may exist since the erasure.
 */
const IS_ERASED_KEY = `(e.final_categories ? k.category OR k.created_at < ${CATEGORY_ERASED_AT})`;

/** Selects keys that still exist, although the read models show the erasure of their data. */
const ERASED_KEYS_SQL = `
  SELECT k.id FROM ${READ_MODEL_SCHEMA}.erasure e
    JOIN data_keys.data_key k ON k.person_type = e.person_type AND k.person_id = e.person_id
   WHERE k.destroyed_at IS NULL AND ($1::uuid IS NULL OR e.person_id = $1) AND ${IS_ERASED_KEY}
  LIMIT ${MAX_KEYS}`;

/**
 * Destroys the data keys that still exist although their data was erased: keys that a restore of Postgres has brought back,
 * and keys of an erasure that was interrupted.
 *
 * @param personId person of the erasures; all persons if undefined
 */
export async function destroyErasedKeys(pool: pg.Pool, personId?: string): Promise<number> {
  let destroyedCount = 0;
  for (;;) {
    const { rows } = await pool.query<{ id: string }>(ERASED_KEYS_SQL, [personId ?? null]);
    destroyedCount += await destroyKeys(
      pool,
      rows.map(({ id }) => id),
    );
    if (rows.length < MAX_KEYS) return destroyedCount;
  }
}
