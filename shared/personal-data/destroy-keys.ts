import type pg from "pg";
import type { Person, PersonalDataCategory } from "../domain/personal-data/person.ts";

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
