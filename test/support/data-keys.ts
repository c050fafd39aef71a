import type pg from "pg";
import { createDataKeys, type ReportMissingKeys } from "../../shared/personal-data/create-data-keys.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";

const masterKeys = { current: "test", keys: { test: Buffer.alloc(32, 7).toString("base64") } };

/** Value of PERSONAL_DATA_KEYS for the services that a test starts. All tests use the same master key. */
export const PERSONAL_DATA_KEYS = JSON.stringify(masterKeys);

/** Creates the data keys that the services of a test share. */
export function createTestDataKeys(pool: pg.Pool, reportMissingKeys?: ReportMissingKeys): DataKeys {
  return createDataKeys(pool, { PERSONAL_DATA_KEYS: masterKeys }, reportMissingKeys);
}
