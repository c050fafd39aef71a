import type pg from "pg";
import { createUnavailableError } from "../../../shared/http/api-error.ts";
import { isPostgresUnavailable } from "../../../shared/postgres/unavailable.ts";

/**
 * SQLSTATEs for read models that this service cannot use yet: a missing schema or table, and a missing right. The
 * projection service creates the tables and grants the rights when it starts.
 */
const NOT_READY_SQLSTATES = new Set(["3F000", "42P01", "42501"]);

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
    const { code } = error as { code?: string };
    if (isPostgresUnavailable(error) || NOT_READY_SQLSTATES.has(code ?? "")) {
      throw createUnavailableError("read_models_unavailable", error);
    }
    throw error;
  }
}

/**
 * Returns the clinics that a query may read.
 *
 * @param permittedClinicIds ids of the clinics in the reader's scope; null for all clinics
 * @param clinicId id of the only clinic to read; undefined for all permitted clinics
 * @returns ids of the clinics to read; null for all clinics
 */
export function narrowScope(
  permittedClinicIds: readonly string[] | null,
  clinicId: string | undefined,
): readonly string[] | null {
  if (clinicId === undefined) return permittedClinicIds;
  return permittedClinicIds === null || permittedClinicIds.includes(clinicId) ? [clinicId] : [];
}
