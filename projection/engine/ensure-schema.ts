import type pg from "pg";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import {
  buildAddedColumnsDdl,
  buildAuditRightsDdl,
  buildReadModelDdl,
  buildSkippedEventsDdl,
  computeFingerprint,
} from "./ddl.ts";
import type { AnyReadModel } from "./read-model.ts";

/**
 * Creates the read models if the database has none. If an earlier release created them, adds the missing columns and
 * the table of skipped events, and grants the auditors' rights. Leaves read models of another release unchanged: the
 * projectors stand by until a rebuild. If several processes start at the same time, a lock makes them run one after
 * another.
 */
export async function ensureReadModels(pool: pg.Pool, models: readonly AnyReadModel[]): Promise<void> {
  const connection = await pool.connect();
  try {
    await connection.query("BEGIN");
    await connection.query("SELECT pg_advisory_xact_lock(hashtextextended('read model schema', 0))");
    const { rows } = await connection.query<{ found: boolean; complete: boolean }>(
      `SELECT c IS NOT NULL AS found,
              EXISTS (SELECT FROM pg_attribute WHERE attrelid = c AND attname = 'filled') AS complete
         FROM to_regclass($1) AS c`,
      [`${READ_MODEL_SCHEMA}.checkpoint`],
    );
    const { found, complete } = rows[0] ?? {};
    if (!found) await connection.query(buildReadModelDdl(models));
    else if (!complete) await connection.query(buildAddedColumnsDdl(READ_MODEL_SCHEMA));
    await connection.query(buildSkippedEventsDdl(READ_MODEL_SCHEMA));
    if (found) await grantMissingAuditRights(connection, models);
    await connection.query("COMMIT");
  } catch (error) {
    // On a broken connection, the rollback fails, but the server rolls back anyway. Only the original error matters.
    await connection.query("ROLLBACK").catch(() => undefined);
    throw error;
  } finally {
    connection.release();
  }
}

/** Grants the rights that an earlier release with the same tables has not granted to auditors. */
async function grantMissingAuditRights(connection: pg.ClientBase, models: readonly AnyReadModel[]): Promise<void> {
  const { rowCount } = await connection.query(
    `SELECT FROM ${READ_MODEL_SCHEMA}.checkpoint WHERE shape = $1 AND NOT has_schema_privilege('clinic_audit', $2, 'USAGE')`,
    [computeFingerprint(models), READ_MODEL_SCHEMA],
  );
  if (rowCount) await connection.query(buildAuditRightsDdl(models, READ_MODEL_SCHEMA));
}
