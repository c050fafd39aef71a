import type pg from "pg";
import type { Clinic } from "../../../shared/domain/clinic/clinic.ts";
import type { PersonalDataCategory } from "../../../shared/domain/personal-data/person.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";

export type RetainedType = "customer" | "appointment" | "queueTicket";

export interface DuePerson {
  type: RetainedType;
  id: string;
  clinicId: string;
  /** Time of the last visit; the time of the registration if there was no visit. RFC 3339. */
  lastVisitAt: string;
  categories: PersonalDataCategory[];
}

/** A page of persons whose retention period has ended, and the retention rules with which the page was found. */
interface DuePage {
  persons: DuePerson[];
  retentionMonths: Clinic["retentionMonths"];
}

const PAGE_SIZE = 500;

/** Sorts before all ids of persons. */
const FIRST_ID = "00000000-0000-0000-0000-000000000000";

/**
 * Returns an SQL expression about a person. Its value is the category if the retention period has ended and data
 * remains, otherwise null. Data remains if there was no erasure, or if a data key still exists.
 *
 * @param period SQL parameter with the length of the period in months
 */
function buildDueCategorySql(
  category: PersonalDataCategory,
  period: string,
  type: RetainedType,
  idSql: string,
): string {
  // Without UTC, Postgres would subtract months in the time zone of the connection.
  return `CASE WHEN last_visit_at AT TIME ZONE 'UTC'
      < ($4::timestamptz AT TIME ZONE 'UTC') - make_interval(months => ${period}::int)
    AND (e.${category}_erased_at IS NULL OR EXISTS (
      SELECT FROM data_keys.data_key k WHERE k.person_type = '${type}' AND k.person_id = ${idSql}
         AND k.category = '${category}' AND k.destroyed_at IS NULL)) THEN '${category}' END`;
}

function buildDuePersonsSql(type: RetainedType, rowsSql: string): string {
  const dueCategoriesSql = (["contact", "animal", "notes"] as const).map((category, index) =>
    // Only a customer has contact data and animals.
    category === "notes" || type === "customer"
      ? buildDueCategorySql(category, `$${index + 5}`, type, "p.id")
      : `CASE WHEN $${index + 5}::int IS NULL THEN NULL END`,
  );
  return `SELECT * FROM (
      SELECT p.id, rfc3339(last_visit_at) AS "lastVisitAt",
             array_remove(ARRAY[${dueCategoriesSql.join(", ")}]::text[], NULL) AS categories
        FROM (${rowsSql}) p
        LEFT JOIN ${READ_MODEL_SCHEMA}.erasure e ON e.person_type = '${type}' AND e.person_id = p.id
    ) due WHERE cardinality(categories) > 0 ORDER BY id LIMIT $3`;
}

/**
 * SQL queries by type. Each selects the persons of clinic `$1` with ids after `$2`, and the time of their last visit.
 */
const rowsSqlByType: Record<RetainedType, string> = {
  customer: `
    SELECT c.customer_id AS id, COALESCE(GREATEST(
             (SELECT max(scheduled_at) FROM ${READ_MODEL_SCHEMA}.appointment a WHERE a.customer_id = c.customer_id),
             (SELECT max(t.checked_in_at) FROM ${READ_MODEL_SCHEMA}.animal
               JOIN ${READ_MODEL_SCHEMA}.queue_ticket t USING (animal_id) WHERE animal.customer_id = c.customer_id)
           ), c.created_at) AS last_visit_at
      FROM ${READ_MODEL_SCHEMA}.customer c WHERE c.clinic_id = $1 AND c.customer_id > $2`,
  appointment: `
    SELECT appointment_id AS id, scheduled_at AS last_visit_at FROM ${READ_MODEL_SCHEMA}.appointment
     WHERE clinic_id = $1 AND customer_id IS NULL AND appointment_id > $2`,
  queueTicket: `
    SELECT t.ticket_id AS id, t.checked_in_at AS last_visit_at FROM ${READ_MODEL_SCHEMA}.queue_ticket t
      LEFT JOIN ${READ_MODEL_SCHEMA}.appointment a ON a.appointment_id = t.appointment_id
     WHERE t.clinic_id = $1 AND t.animal_id IS NULL AND a.customer_id IS NULL AND t.ticket_id > $2`,
};

const statements = Object.entries(rowsSqlByType).map(([type, rowsSql]) => ({
  type: type as RetainedType,
  name: `due persons of type ${type}`,
  text: buildDuePersonsSql(type as RetainedType, rowsSql),
}));

/**
 * Finds the clinics that have retention rules. Includes clinics whose stream is quarantined, because their rules are
 * unknown.
 *
 * @param clinicId the only clinic to read; all clinics if undefined
 */
export async function findClinicsWithRules(pool: pg.Pool, clinicId: string | undefined): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>(
    `SELECT clinic_id::text AS id FROM ${READ_MODEL_SCHEMA}.clinic
      WHERE retention_months <> '{}' AND ($1::uuid IS NULL OR clinic_id = $1)
     UNION SELECT substr(stream, 8) FROM ${READ_MODEL_SCHEMA}.quarantined_stream
      WHERE stream LIKE 'clinic-%' AND ($1::uuid IS NULL OR stream = 'clinic-' || $1::text)
     ORDER BY id`,
    [clinicId ?? null],
  );
  return rows.map(({ id }) => id);
}

async function readRetentionMonths(pool: pg.Pool, clinicId: string): Promise<Clinic["retentionMonths"]> {
  const { rows } = await pool.query<{ retentionMonths: Clinic["retentionMonths"] }>(
    `SELECT retention_months AS "retentionMonths" FROM ${READ_MODEL_SCHEMA}.clinic WHERE clinic_id = $1`,
    [clinicId],
  );
  return rows[0]?.retentionMonths ?? {};
}

/**
 * Finds the persons of a clinic whose retention period has ended, in pages. The caller may erase the persons of a page
 * before it takes the next page. Each page is found with the clinic's current rules.
 *
 * @param now milliseconds since 1970
 */
export async function* findDuePersons(pool: pg.Pool, clinicId: string, now: number): AsyncGenerator<DuePage, void> {
  for (const { type, name, text } of statements) {
    let lastId = FIRST_ID;
    for (;;) {
      const retentionMonths = await readRetentionMonths(pool, clinicId);
      const { contact = null, animal = null, notes = null } = retentionMonths;
      const values = [clinicId, lastId, PAGE_SIZE, new Date(now).toISOString(), contact, animal, notes];
      const { rows } = await pool.query<Omit<DuePerson, "type" | "clinicId">>({ name, text, values });
      if (rows.length > 0) yield { persons: rows.map((row) => ({ type, clinicId, ...row })), retentionMonths };
      if (rows.length < PAGE_SIZE) break;
      lastId = rows.at(-1)?.id ?? lastId;
    }
  }
}
