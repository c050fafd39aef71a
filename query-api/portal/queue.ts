import { z } from "zod";
import { appointmentStatuses } from "../../shared/domain/appointment/appointment.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { calendarDate, instant, uuid } from "../http/fields.ts";
import { describeLocalDays } from "./local-days.ts";
import { buildJsonElementsSql, datedEnvelope, defineOperation } from "./operation.ts";

/** Maximum number of entries in each list. The lists have no pages, because a front desk has fewer entries per day. */
const MAX_ENTRIES = 1_000;

const ticketSchema = z.strictObject({
  id: uuid,
  appointment_id: uuid.nullable(),
  visit_id: uuid.nullable(),
  animal_id: uuid.nullable(),
  ticket_number: z.string(),
  queue_date: calendarDate,
  arrival_type: z.string(),
  priority: z.string(),
  status: z.string(),
  estimated_wait_minutes: z.int().nullable(),
  checked_in_at: instant,
  called_at: instant.nullable(),
  completed_at: instant.nullable(),
  notes: z.string().nullable(),
  updated_at: instant,
});

const queuedAppointmentSchema = z.strictObject({
  id: uuid,
  animal_id: uuid,
  scheduled_at: instant,
  duration_minutes: z.int().min(1),
  reason: z.string().nullable(),
  status: z.enum(appointmentStatuses),
});

const count = z.int().min(0);

const activeTicketsSql = `SELECT * FROM ${READ_MODEL_SCHEMA}.queue_ticket t
  WHERE t.clinic_id = access.clinic_id AND t.branch_id = access.branch_id
    AND t.status NOT IN ('completed', 'cancelled', 'no_show')`;

/** Sorts ticket numbers by length first, so that 9 comes before 10. */
const ticketOrderSql = 'queue_date, length(ticket_number), ticket_number COLLATE "C", ticket_id';

/** Selects today's checked-in appointments without a queue ticket. $3: the current local day, by time zone. */
const appointmentsWithoutTicketSql = `SELECT * FROM ${READ_MODEL_SCHEMA}.appointment a
  WHERE a.clinic_id = access.clinic_id AND a.branch_id = access.branch_id
    AND a.scheduled_at >= ($3::jsonb #>> ARRAY[access.timezone, 'from'])::timestamptz
    AND a.scheduled_at < ($3::jsonb #>> ARRAY[access.timezone, 'to'])::timestamptz
    AND a.status IN ('checked_in', 'waiting', 'in_consultation') AND a.animal_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.queue_ticket t
      WHERE t.appointment_id = a.appointment_id AND t.clinic_id = a.clinic_id)
  ORDER BY a.scheduled_at, a.appointment_id
  LIMIT ${MAX_ENTRIES}`;

export const getQueue = defineOperation({
  operationId: "getQueue",
  path: "/api/v1/queue",
  summary: "Get the front-desk queue",
  description:
    "Returns the active tickets of the authorized branch, sorted by date and number, and today's checked-in appointments without a ticket.",
  response: z.strictObject({
    ...datedEnvelope,
    context: z.strictObject({ clinicId: uuid, branchId: uuid }),
    tickets: z.array(ticketSchema),
    summary: z.strictObject({ active: count, waiting: count, priority: count }),
    legacyAppointmentQueue: z.array(queuedAppointmentSchema),
  }),
  sql: `WITH active AS MATERIALIZED (${activeTicketsSql})
  SELECT CASE WHEN $3::jsonb ? access.timezone THEN concat(
    '{"context":', json_build_object('clinicId', access.clinic_id, 'branchId', access.branch_id),
    ',"tickets":[', (SELECT ${buildJsonElementsSql("t.portal_json", ticketOrderSql)}
      FROM (SELECT * FROM active ORDER BY ${ticketOrderSql} LIMIT ${MAX_ENTRIES}) t),
    '],"summary":', (SELECT json_build_object('active', count(*),
      'waiting', count(*) FILTER (WHERE status = 'waiting'),
      'priority', count(*) FILTER (WHERE priority <> 'normal')) FROM active),
    ',"legacyAppointmentQueue":', (SELECT coalesce(json_agg(json_build_object('id', a.appointment_id,
      'animal_id', a.animal_id, 'scheduled_at', rfc3339(a.scheduled_at), 'duration_minutes', a.duration_minutes,
      'reason', a.reason, 'status', a.status) ORDER BY a.scheduled_at, a.appointment_id), '[]')
      FROM (${appointmentsWithoutTicketSql}) a), '}')
    ELSE json_build_array(access.timezone)::text END`,
  getValues: (_, now, timeZones) => [describeLocalDays(timeZones, now, now + 1)],
});
