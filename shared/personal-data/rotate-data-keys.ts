import type pg from "pg";
import { type KeyRow, toKeyStoreError } from "./data-key-store.ts";
import type { MasterKeys } from "./master-keys.ts";

/** Number of data keys in one statement. */
const BATCH_SIZE = 500;

/** Progress of a rotation. */
export interface RotationProgress {
  /** Number of keys that have been wrapped with the current master key. */
  rewrapped: number;
  /** Number of keys that another master key wrapped when the rotation started. */
  found: number;
}

/**
 * Wraps all data keys with the current master key. The data keys themselves do not change, so other processes read and
 * write meanwhile. Each batch is one statement. An interrupted rotation can be repeated, and continues with the
 * remaining keys.
 *
 * @param batchSize number of keys in a batch
 * @returns the progress after each batch, and once before the first batch
 * @throws {KeyStoreUnavailableError}
 * @throws {DataKeyError} if a key's master key is not configured
 */
export async function* rotateDataKeys(
  pool: pg.Pool,
  masterKeys: MasterKeys,
  batchSize = BATCH_SIZE,
): AsyncGenerator<RotationProgress, void> {
  const { currentId } = masterKeys;
  const query = async <Row extends pg.QueryResultRow>(text: string, values: unknown[]) => {
    try {
      return await pool.query<Row>(text, values);
    } catch (error) {
      throw toKeyStoreError(error);
    }
  };
  const { rows: counts } = await query<{ found: number }>(
    "SELECT count(*)::integer AS found FROM data_keys.data_key WHERE master_key_id <> $1",
    [currentId],
  );
  const progress: RotationProgress = { rewrapped: 0, found: counts[0]?.found ?? 0 };
  yield { ...progress };
  let lastId = "00000000-0000-0000-0000-000000000000";
  for (;;) {
    const { rows } = await query<KeyRow>(
      `SELECT id, person_type AS "personType", person_id AS "personId", category, wrapped_key AS "wrappedKey",
         master_key_id AS "masterKeyId"
        FROM data_keys.data_key WHERE id > $1 AND master_key_id <> $2 ORDER BY id LIMIT $3`,
      [lastId, currentId, batchSize],
    );
    const lastRow = rows.at(-1);
    if (!lastRow) return;
    const { rowCount } = await query(
      // A key that was destroyed meanwhile has no master key, and stays destroyed.
      `UPDATE data_keys.data_key AS data_key SET wrapped_key = batch.wrapped_key, master_key_id = $3
        FROM unnest($1::uuid[], $2::bytea[], $4::text[]) AS batch (id, wrapped_key, former_master_key_id)
        WHERE data_key.id = batch.id AND data_key.master_key_id = batch.former_master_key_id`,
      [
        rows.map(({ id }) => id),
        rows.map((row) => rewrap(row, masterKeys)),
        currentId,
        rows.map(({ masterKeyId }) => masterKeyId),
      ],
    );
    progress.rewrapped += rowCount ?? 0;
    lastId = lastRow.id;
    yield { ...progress };
  }
}

function rewrap({ id, personType, personId, category, wrappedKey, masterKeyId }: KeyRow, masterKeys: MasterKeys) {
  const owner = { person: { type: personType, id: personId }, category };
  return masterKeys.wrap(id, owner, masterKeys.unwrap(id, owner, { wrappedKey, masterKeyId })).wrappedKey;
}
