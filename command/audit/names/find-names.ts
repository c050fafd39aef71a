import type pg from "pg";
import { ApiError } from "../../../shared/http/api-error.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { queryReadModels } from "./read-models.ts";

/** Maximum number of names in a response. Lower than the number of ids that the index stores for an access. */
const MAX_NAMES = 900;

export interface RecordName {
  id: string;
  kind: string;
  name: string | null;
  clinicId: string | null;
  scheduledAt: string | null;
}

/** Tables with names: kind of record, table, id column and SQL expression for the name. */
const NAMED_TABLES: [kind: string, table: string, idColumn: string, name: string][] = [
  ["clinic", "clinic", "clinic_id", "t.name"],
  ["branch", "branch", "branch_id", "t.name"],
  ["customer", "customer", "customer_id", "t.full_name"],
  ["animal", "animal", "animal_id", "t.name"],
  ["staff", "staff", "staff_id", "t.full_name"],
  ["user", "staff", "user_id", "t.full_name"],
  ["service", "service", "service_id", "t.name"],
  ["resource", "resource", "resource_id", "t.name"],
  ["queue ticket", "queue_ticket", "ticket_id", "t.ticket_number"],
  ["webhook endpoint", "webhook_endpoint", "endpoint_id", "t.origin"],
];

/** Creates the SQL for the names of records in a table. $1: ids. $2: ids of the permitted clinics (null for all). */
const createTableSql = ([kind, table, idColumn, name]: (typeof NAMED_TABLES)[number]) =>
  `SELECT t.${idColumn} AS id, '${kind}' AS kind, ${name} AS name, t.clinic_id AS "clinicId", NULL AS "scheduledAt"
    FROM ${READ_MODEL_SCHEMA}.${table} t
   WHERE t.${idColumn} = ANY ($1::uuid[]) AND ${name} IS NOT NULL
     AND ($2::uuid[] IS NULL OR t.clinic_id = ANY ($2::uuid[]))`;

const APPOINTMENTS_SQL = `SELECT a.appointment_id, 'appointment', coalesce(n.name, c.full_name), a.clinic_id,
    rfc3339(a.scheduled_at)
   FROM ${READ_MODEL_SCHEMA}.appointment a
   LEFT JOIN ${READ_MODEL_SCHEMA}.animal n ON n.animal_id = a.animal_id AND n.clinic_id = a.clinic_id
   LEFT JOIN ${READ_MODEL_SCHEMA}.customer c ON c.customer_id = a.customer_id AND c.clinic_id = a.clinic_id
  WHERE a.appointment_id = ANY ($1::uuid[]) AND ($2::uuid[] IS NULL OR a.clinic_id = ANY ($2::uuid[]))`;

/** Selects the names of applications that are or were installed at a permitted clinic. */
const APPLICATIONS_SQL = `SELECT p.application_id, 'application', p.name, NULL::uuid, NULL
   FROM ${READ_MODEL_SCHEMA}.partner_application p
  WHERE p.application_id = ANY ($1::uuid[]) AND ($2::uuid[] IS NULL OR EXISTS (
    SELECT FROM ${READ_MODEL_SCHEMA}.installation i
     WHERE i.application_id = p.application_id AND i.clinic_id = ANY ($2::uuid[])))`;

const INSTALLATIONS_SQL = `SELECT i.installation_id, 'installation', p.name, i.clinic_id, NULL
   FROM ${READ_MODEL_SCHEMA}.installation i
   JOIN ${READ_MODEL_SCHEMA}.partner_application p ON p.application_id = i.application_id
  WHERE i.installation_id = ANY ($1::uuid[]) AND ($2::uuid[] IS NULL OR i.clinic_id = ANY ($2::uuid[]))`;

const NAMES_SQL = [...NAMED_TABLES.map(createTableSql), APPOINTMENTS_SQL, APPLICATIONS_SQL, INSTALLATIONS_SQL].join(
  "\n UNION ALL ",
);

const UUIDS = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g;

/**
 * Finds the names of the records whose ids occur in a value. Omits records that the reader may not see.
 *
 * @param clinicIds ids of the permitted clinics; null for all clinics
 * @returns null if the read models are unavailable
 */
export async function findNames(
  pool: pg.Pool,
  value: unknown,
  clinicIds: readonly string[] | null,
): Promise<RecordName[] | null> {
  const ids = [...new Set(JSON.stringify(value).toLowerCase().match(UUIDS))];
  const statement = { name: "names of records", text: NAMES_SQL, values: [ids, clinicIds] };
  try {
    return (await queryReadModels<RecordName>(pool, statement)).slice(0, MAX_NAMES);
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}
