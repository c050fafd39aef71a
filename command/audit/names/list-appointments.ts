import type pg from "pg";
import { z } from "zod";
import { calendarDate, uuid } from "../../../shared/domain/events/fields.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { queryReadModels } from "./read-models.ts";

export const appointmentsQuerySchema = z.strictObject({
  clinic: uuid,
  day: calendarDate,
  /** Time of day in the clinic's time zone. Only appointments that take place at this time are listed. */
  time: z
    .string()
    .regex(/^([01]\d|2[0-3]):[0-5]\d$/, "must be a time HH:MM")
    .optional(),
});
type AppointmentsQuery = z.output<typeof appointmentsQuerySchema>;

interface ListedAppointment {
  id: string;
  clinicId: string;
  scheduledAt: string;
  durationMinutes: number;
  status: string;
  branch: string | null;
  animal: { id: string; name: string | null } | null;
  customer: { id: string; name: string | null } | null;
}

const MAX_APPOINTMENTS = 500;

/** Parameters: $1 is the clinic, $2 the array of permitted clinics (null for all), $3 the date, $4 the time or null. */
const APPOINTMENTS_SQL = `SELECT a.appointment_id AS id, a.clinic_id AS "clinicId", rfc3339(a.scheduled_at) AS "scheduledAt",
    a.duration_minutes AS "durationMinutes", a.status, b.name AS branch,
    CASE WHEN a.animal_id IS NOT NULL THEN json_build_object('id', a.animal_id, 'name', n.name) END AS animal,
    CASE WHEN a.customer_id IS NOT NULL THEN json_build_object('id', a.customer_id, 'name', o.full_name) END AS customer
  FROM ${READ_MODEL_SCHEMA}.clinic c
  JOIN ${READ_MODEL_SCHEMA}.appointment a ON a.clinic_id = c.clinic_id
    AND a.scheduled_at >= ($3::date)::timestamp AT TIME ZONE c.timezone
    AND a.scheduled_at < ($3::date + 1)::timestamp AT TIME ZONE c.timezone
    AND ($4::time IS NULL OR ($3::date + $4::time) AT TIME ZONE c.timezone
      BETWEEN a.scheduled_at AND a.scheduled_at + a.duration_minutes * interval '1 minute' - interval '1 ms')
  LEFT JOIN ${READ_MODEL_SCHEMA}.branch b ON b.branch_id = a.branch_id AND b.clinic_id = c.clinic_id
  LEFT JOIN ${READ_MODEL_SCHEMA}.animal n ON n.animal_id = a.animal_id AND n.clinic_id = c.clinic_id
  LEFT JOIN ${READ_MODEL_SCHEMA}.customer o ON o.customer_id = a.customer_id AND o.clinic_id = c.clinic_id
  WHERE c.clinic_id = $1 AND ($2::uuid[] IS NULL OR c.clinic_id = ANY ($2::uuid[]))
  ORDER BY a.scheduled_at, a.appointment_id LIMIT ${MAX_APPOINTMENTS + 1}`;

/**
 * Lists the appointments of a clinic on one day, sorted by time.
 *
 * @param permittedClinicIds ids of the clinics in the reader's scope; null for all clinics
 * @throws {ApiError} 503 `read_models_unavailable`
 */
export async function listAppointments(
  pool: pg.Pool,
  { clinic, day, time }: AppointmentsQuery,
  permittedClinicIds: readonly string[] | null,
): Promise<{ appointments: ListedAppointment[]; isComplete: boolean }> {
  const values = [clinic, permittedClinicIds, day, time ?? null];
  const rows = await queryReadModels<ListedAppointment>(pool, {
    name: "appointments of a day",
    text: APPOINTMENTS_SQL,
    values,
  });
  return { appointments: rows.slice(0, MAX_APPOINTMENTS), isComplete: rows.length <= MAX_APPOINTMENTS };
}
