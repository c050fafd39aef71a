import type pg from "pg";
import { createUnavailableError } from "../../../shared/http/api-error.ts";
import { areReadModelsMissing, isPostgresUnavailable } from "../../../shared/runtime/failures.ts";

/**
 * Runs a query on the read models.
 *
 * @throws {ApiError} 503 `read_models_unavailable` if Postgres is unavailable or has no read models of this release
 */
export async function queryReadModels<Row extends pg.QueryResultRow>(
  pool: pg.Pool,
  statement: { name: string; text: string; values: unknown[] },
): Promise<Row[]> {
  try {
    return (await pool.query<Row>(statement)).rows;
  } catch (error) {
    if (!isPostgresUnavailable(error) && !areReadModelsMissing(error)) throw error;
    throw createUnavailableError("read_models_unavailable", error);
  }
}
