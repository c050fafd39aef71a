import { z } from "zod";
import { appointmentStatuses } from "../../shared/domain/appointment/appointment.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { instant, timeWindow, uuid } from "../http/fields.ts";
import {
  createLimitParameter,
  MAX_WINDOW_DAYS,
  statusParameter,
  toTimeWindow,
  windowParameters,
} from "../http/parameters.ts";
import { buildJsonElementsSql, buildJsonObjectSql, datedEnvelope, defineOperation, limitedPage } from "./operation.ts";

const allocatedResourceSchema = z.strictObject({
  id: uuid,
  type: z.string().nullable(),
  name: z.string().nullable(),
  allocationStart: instant,
  allocationEnd: instant,
  status: z.string().describe("`allocated` or `released`."),
});

const appointmentSchema = z.strictObject({
  id: uuid,
  scheduledAt: instant,
  durationMinutes: z.int(),
  reason: z.string().nullable(),
  status: z.enum(appointmentStatuses),
  notes: z.string().nullable(),
  createdAt: instant,
  updatedAt: instant,
  animal: z.strictObject({ id: uuid, name: z.string(), species: z.string(), breed: z.string().nullable() }).nullable(),
  customer: z.strictObject({ id: uuid, fullName: z.string() }).nullable(),
  resources: z.array(allocatedResourceSchema),
});

/** Selects appointments of the authorized branch. $3 and $4: window. $5: status. $6: limit. */
const appointmentsInWindowSql = `SELECT * FROM ${READ_MODEL_SCHEMA}.appointment a
  WHERE a.clinic_id = access.clinic_id AND a.branch_id = access.branch_id
    AND a.scheduled_at >= $3::timestamptz AND a.scheduled_at < $4::timestamptz
    AND ($5::text IS NULL OR a.status = $5)
  ORDER BY a.scheduled_at, a.appointment_id
  LIMIT $6::integer`;

export const listAppointments = defineOperation({
  operationId: "listAppointments",
  path: "/api/v1/appointments",
  summary: "List appointments of the branch",
  description:
    "Lists appointments of the authorized branch in a window of at most 31 days, sorted by time. The list has a maximum length, so it may not contain all appointments.",
  parameters: { ...windowParameters, status: statusParameter, limit: createLimitParameter(250, 100) },
  response: z.looseObject({
    ...datedEnvelope,
    context: z.strictObject({ clinicId: uuid, branchId: uuid }),
    window: timeWindow,
    appointments: z.array(appointmentSchema),
    page: limitedPage,
  }),
  sql: `SELECT concat(
    '{"context":', json_build_object('clinicId', access.clinic_id, 'branchId', access.branch_id),
    ',"window":', json_build_object('from', rfc3339($3::timestamptz), 'to', rfc3339($4::timestamptz),
      'maximumDays', ${MAX_WINDOW_DAYS}),
    ',"appointments":[', ${buildJsonElementsSql("listed.members", "listed.scheduled_at, listed.appointment_id")},
    '],"page":', json_build_object('limit', $6::integer, 'returned', count(*)), '}')
  FROM (
    SELECT a.scheduled_at, a.appointment_id, a.portal_json
      || ',"animal":' || ${buildJsonObjectSql("n.appointment_json")}
      || ',"customer":' || ${buildJsonObjectSql("u.appointment_json")}
      || ',' || a.resources_json AS members
    FROM (${appointmentsInWindowSql}) a
    LEFT JOIN ${READ_MODEL_SCHEMA}.animal n ON n.animal_id = a.animal_id AND n.clinic_id = a.clinic_id
    LEFT JOIN ${READ_MODEL_SCHEMA}.customer u ON u.customer_id = a.customer_id AND u.clinic_id = a.clinic_id
  ) listed`,
  getValues({ from, to, status, limit }, now) {
    const window = toTimeWindow({ from, to }, now);
    return [window.from, window.to, status, limit];
  },
});
