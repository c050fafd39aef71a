import type pg from "pg";
import { z } from "zod";
import { label, uuid } from "../../../shared/domain/events/fields.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { queryReadModels } from "./read-models.ts";

const searchKinds = ["customer", "animal", "staff"] as const;

export const searchQuerySchema = z.strictObject({
  name: label.pipe(z.string().min(2).max(100)),
  kind: z.enum(searchKinds).optional(),
  clinic: uuid.optional(),
});
type SearchQuery = z.output<typeof searchQuerySchema>;

/** A result in the response. The type declares only the fields that the service itself reads. */
interface FoundName {
  kind: (typeof searchKinds)[number];
  id: string;
  clinicId: string;
  /** Owner of an animal; null for a customer or staff member. */
  customer: { id: string } | null;
}

const MAX_RESULTS_PER_KIND = 50;

/**
 * Creates the SQL that finds records of one kind by name. SQL parameters: $1 is the pattern, $2 the array of permitted
 * clinics (null for all), $3 the kind (null for all). In the results, `detail` is the species of an animal, or the role
 * of a staff member.
 */
const createKindSql = (kind: FoundName["kind"], columns: string, from: string, nameColumn: string) =>
  `(SELECT '${kind}' AS kind, ${columns} FROM ${from}
    WHERE ($3::text IS NULL OR $3 = '${kind}') AND upper(lower(${buildNameSortSql(`x.${nameColumn}`)})) LIKE $1
      AND ($2::uuid[] IS NULL OR x.clinic_id = ANY ($2::uuid[]))
    ORDER BY ${buildNameSortSql(`x.${nameColumn}`)}, 2 LIMIT ${MAX_RESULTS_PER_KIND + 1})`;

const SEARCH_SQL = [
  createKindSql(
    "customer",
    `x.customer_id AS id, x.full_name AS name, x.clinic_id AS "clinicId", NULL::json AS customer, NULL AS detail`,
    `${READ_MODEL_SCHEMA}.customer x`,
    "full_name",
  ),
  createKindSql(
    "animal",
    `x.animal_id, x.name, x.clinic_id, json_build_object('id', c.customer_id, 'name', c.full_name), x.species`,
    `${READ_MODEL_SCHEMA}.animal x JOIN ${READ_MODEL_SCHEMA}.customer c ON c.customer_id = x.customer_id
      AND c.clinic_id = x.clinic_id`,
    "name",
  ),
  createKindSql(
    "staff",
    "x.staff_id, x.full_name, x.clinic_id, NULL, x.role",
    `${READ_MODEL_SCHEMA}.staff x`,
    "full_name",
  ),
].join("\n UNION ALL ");

/**
 * Finds customers, animals and staff members by a part of their name. The comparison ignores case by Unicode's full
 * case mapping. For example, ς equals σ, ß equals ss, and ı equals i. Some capital letters, such as ẞ, have the same
 * capital form as others only by way of their small form.
 *
 * @param permittedClinicIds ids of the clinics in the reader's scope; null for all clinics
 * @returns the results by kind, each sorted by name
 * @throws {ApiError} 503 `read_models_unavailable`
 */
export async function searchNames(
  pool: pg.Pool,
  { name, kind, clinic }: SearchQuery,
  permittedClinicIds: readonly string[] | null,
): Promise<{ results: FoundName[]; isComplete: boolean }> {
  const pattern = `%${name
    .toLowerCase()
    .toUpperCase()
    .replaceAll(/[\\%_]/g, "\\$&")}%`;
  const isPermitted = clinic === undefined || !permittedClinicIds || permittedClinicIds.includes(clinic);
  const clinicIds = clinic === undefined ? permittedClinicIds : isPermitted ? [clinic] : [];
  const values = [pattern, clinicIds, kind ?? null];
  const rows = await queryReadModels<FoundName>(pool, { name: "names", text: SEARCH_SQL, values });
  const results = searchKinds.flatMap((searchKind) =>
    rows.filter((row) => row.kind === searchKind).slice(0, MAX_RESULTS_PER_KIND),
  );
  return { results, isComplete: results.length === rows.length };
}
