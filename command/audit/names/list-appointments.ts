import type pg from "pg";
import { z } from "zod";
import { MAX_APPOINTMENT_MINUTES } from "../../../shared/domain/events/appointment.ts";
import { calendarDate, uuid } from "../../../shared/domain/events/fields.ts";
import { findLocalTime, getDay } from "../../../shared/domain/time/local-time.ts";
import { toInstantInRange } from "../../../shared/domain/time/rfc3339.ts";
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

/** An appointment in the response. The type declares only the fields that the service itself reads. */
interface ListedAppointment {
  id: string;
  /** True if the appointment was ever moved to another time. */
  isMoved: boolean;
  animal: { id: string } | null;
  customer: { id: string } | null;
}

const MAX_APPOINTMENTS = 500;

/** Parameters: $1 is the clinic, $2 the array of permitted clinics (null for all). */
const TIME_ZONE_SQL = `SELECT timezone FROM ${READ_MODEL_SCHEMA}.clinic
  WHERE clinic_id = $1 AND ($2::uuid[] IS NULL OR clinic_id = ANY ($2::uuid[]))`;

/** Returns the SQL condition for a start time. The parameters are those of {@link APPOINTMENTS_SQL}. */
const buildTimeSql = (startsAt: string) => `${startsAt} < coalesce($3::timestamptz, 'infinity')
    AND ${startsAt} >= coalesce($2::timestamptz, '-infinity')
      - CASE WHEN $4::timestamptz[] IS NULL THEN interval '0' ELSE interval '${MAX_APPOINTMENT_MINUTES} minutes' END
    AND ($4::timestamptz[] IS NULL OR EXISTS (SELECT FROM unnest($4::timestamptz[]) AS minute
      WHERE ${startsAt} < minute + interval '1 minute'
        AND ${startsAt} + a.duration_minutes * interval '1 minute' > minute))`;

/** Selects the appointments in a time range. A moved appointment also matches for each former time in the range. */
const MATCHES_SQL = `SELECT a.appointment_id, NULL::timestamptz AS moved_from
    FROM ${READ_MODEL_SCHEMA}.appointment a WHERE a.clinic_id = $1 AND ${buildTimeSql("a.scheduled_at")}
  UNION ALL
  SELECT DISTINCT a.appointment_id, former.time
    FROM ${READ_MODEL_SCHEMA}.appointment a
    CROSS JOIN LATERAL (SELECT text::timestamptz AS time FROM json_array_elements_text(a.former_times) AS text) former
   WHERE a.clinic_id = $1 AND json_array_length(a.former_times) > 0 AND ${buildTimeSql("former.time")}
     AND former.time <> a.scheduled_at`;

/**
 * Selects the appointments of a day. In a row for a former time, `movedFrom` is this time. Parameters: $1 is the
 * clinic, $2 and $3 are the start and the end of the day (null for no limit). $4 is null, or an array with the starts
 * of minutes. With $4, only appointments during one of these minutes match, even if they started on the day before.
 */
const APPOINTMENTS_SQL = `WITH match AS (${MATCHES_SQL})
  SELECT a.appointment_id AS id, a.clinic_id AS "clinicId", rfc3339(a.scheduled_at) AS "scheduledAt",
    rfc3339(match.moved_from) AS "movedFrom", json_array_length(a.former_times) > 0 AS "isMoved", a.duration_minutes AS "durationMinutes", a.status, b.name AS branch,
    CASE WHEN a.animal_id IS NOT NULL THEN json_build_object('id', a.animal_id, 'name', n.name) END AS animal,
    CASE WHEN a.customer_id IS NOT NULL THEN json_build_object('id', a.customer_id, 'name', o.full_name) END AS customer
  FROM match
  JOIN ${READ_MODEL_SCHEMA}.appointment a USING (appointment_id)
  LEFT JOIN ${READ_MODEL_SCHEMA}.branch b ON b.branch_id = a.branch_id AND b.clinic_id = a.clinic_id
  LEFT JOIN ${READ_MODEL_SCHEMA}.animal n ON n.animal_id = a.animal_id AND n.clinic_id = a.clinic_id
  LEFT JOIN ${READ_MODEL_SCHEMA}.customer o ON o.customer_id = a.customer_id AND o.clinic_id = a.clinic_id
  ORDER BY coalesce(match.moved_from, a.scheduled_at), a.appointment_id LIMIT ${MAX_APPOINTMENTS + 1}`;

/**
 * Lists a clinic's appointments that start on a day, sorted by time. With `time`, lists those that take place at this
 * time of the day instead. A moved appointment is also listed at its former times.
 *
 * @param permittedClinicIds ids of the clinics in the reader's scope; null for all clinics
 * @throws {ApiError} 503 `read_models_unavailable`
 */
export async function listAppointments(
  pool: pg.Pool,
  { clinic, day, time }: AppointmentsQuery,
  permittedClinicIds: readonly string[] | null,
): Promise<{ appointments: ListedAppointment[]; isComplete: boolean }> {
  const zoneStatement = { name: "time zone of a clinic", text: TIME_ZONE_SQL, values: [clinic, permittedClinicIds] };
  const [zone] = await queryReadModels<{ timezone: string }>(pool, zoneStatement);
  if (!zone) return { appointments: [], isComplete: true };
  const { from, to } = getDay(zone.timezone, day);
  const minutes = time && findLocalTime(zone.timezone, day, time).flatMap((ms) => toInstantInRange(ms) ?? []);
  const values = [clinic, from, to, minutes];
  const rows = await queryReadModels<ListedAppointment>(pool, {
    name: "appointments of a day",
    text: APPOINTMENTS_SQL,
    values,
  });
  return { appointments: rows.slice(0, MAX_APPOINTMENTS), isComplete: rows.length <= MAX_APPOINTMENTS };
}
