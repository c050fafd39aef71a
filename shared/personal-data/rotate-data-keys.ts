import type pg from "pg";
import { getOwner, KEY_COLUMNS, type KeyRow, toKeyStoreError, unwrapRow } from "./data-key-store.ts";
import { DataKeyError } from "./data-keys.ts";
import type { MasterKeys } from "./master-keys.ts";

const BATCH_SIZE = 500;

/** Maximum number of passes. Keys that a process with former settings wraps meanwhile need another pass. */
const MAX_PASSES = 10;

export interface RotationProgress {
  rewrapped: number;
  /** Number of keys to rewrap: the rewrapped keys, plus the keys that had another master key at the last count. */
  found: number;
}

const COUNT = "SELECT count(*)::integer AS found FROM data_keys.data_key WHERE master_key_id <> $1";

const READ_BATCH = `SELECT ${KEY_COLUMNS}
  FROM data_keys.data_key WHERE id > $1 AND master_key_id <> $2 ORDER BY id LIMIT $3`;

// A key that was destroyed meanwhile has no master key, and stays destroyed.
const WRITE_BATCH = `UPDATE data_keys.data_key AS data_key SET wrapped_key = batch.wrapped_key, master_key_id = $3
  FROM unnest($1::uuid[], $2::bytea[], $4::text[]) AS batch (id, wrapped_key, former_master_key_id)
  WHERE data_key.id = batch.id AND data_key.master_key_id = batch.former_master_key_id`;

/**
 * Wraps all data keys with the current master key. The data keys themselves do not change, so other processes can
 * continue to read and write. Each batch is one statement. Further passes rewrap keys that processes with former
 * settings have wrapped meanwhile. An interrupted rotation can be repeated, and continues with the remaining keys. A
 * key that cannot be used does not stop the rotation of the other keys.
 *
 * @returns the progress after each batch and each pass, and once before the first batch
 * @throws {KeyStoreUnavailableError}
 * @throws {DataKeyError} after the last pass, if some keys cannot be used
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
  const count = async () => (await query<{ found: number }>(COUNT, [currentId])).rows[0]?.found ?? 0;
  const progress: RotationProgress = { rewrapped: 0, found: await count() };
  yield { ...progress };
  const errorById = new Map<string, DataKeyError>();
  for (let pass = 1; pass <= MAX_PASSES && progress.found - progress.rewrapped > errorById.size; pass += 1) {
    let lastId = "00000000-0000-0000-0000-000000000000";
    for (;;) {
      const { rows } = await query<KeyRow>(READ_BATCH, [lastId, currentId, batchSize]);
      const lastRow = rows.at(-1);
      if (!lastRow) break;
      const rewrappedKeys = rows.map((row) => ({ ...row, wrappedKey: rewrap(row, masterKeys) }));
      for (const { id, wrappedKey } of rewrappedKeys)
        if (wrappedKey instanceof DataKeyError) errorById.set(id, wrappedKey);
      const usableKeys = rewrappedKeys.filter(({ wrappedKey }) => wrappedKey instanceof Buffer);
      const { rowCount } = await query(WRITE_BATCH, [
        usableKeys.map(({ id }) => id),
        usableKeys.map(({ wrappedKey }) => wrappedKey),
        currentId,
        usableKeys.map(({ masterKeyId }) => masterKeyId),
      ]);
      progress.rewrapped += rowCount ?? 0;
      lastId = lastRow.id;
      yield { ...progress };
    }
    progress.found = progress.rewrapped + (await count());
    yield { ...progress };
  }
  const [firstError] = errorById.values();
  if (!firstError) return;
  const others = errorById.size > 1 ? ` (and ${errorById.size - 1} other data keys)` : "";
  throw new DataKeyError(`${firstError.message}${others}`, { cause: firstError });
}

function rewrap(row: KeyRow, masterKeys: MasterKeys): Buffer | DataKeyError {
  const key = unwrapRow(masterKeys, row);
  return key instanceof DataKeyError ? key : masterKeys.wrap(row.id, getOwner(row), key).wrappedKey;
}
