import type pg from "pg";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { queryReadModels } from "./read-models.ts";

const MAX_CLINICS = 1_000;

interface NamedClinic {
  id: string;
  name: string;
  timezone: string;
  environment: string;
  status: string;
}

/** Parameters: $1 is the array of permitted clinics (null for all). */
const CLINICS_SQL = `SELECT clinic_id AS id, name, timezone, environment, status FROM ${READ_MODEL_SCHEMA}.clinic
  WHERE $1::uuid[] IS NULL OR clinic_id = ANY ($1::uuid[])
  ORDER BY environment, ${buildNameSortSql("name")}, clinic_id LIMIT ${MAX_CLINICS + 1}`;

/**
 * Lists the clinics in the reader's scope, by name. Production clinics come before sandboxes.
 *
 * @param clinicIds ids of the permitted clinics; null for all clinics
 * @throws {ApiError} 503 `read_models_unavailable`
 */
export async function listClinics(
  pool: pg.Pool,
  clinicIds: readonly string[] | null,
): Promise<{ clinics: NamedClinic[]; isComplete: boolean }> {
  const statement = { name: "clinics of an auditor", text: CLINICS_SQL, values: [clinicIds] };
  const clinics = await queryReadModels<NamedClinic>(pool, statement);
  return { clinics: clinics.slice(0, MAX_CLINICS), isComplete: clinics.length <= MAX_CLINICS };
}
