import { LRUCache } from "lru-cache";
import { z } from "zod";
import { appointmentStatuses } from "../../shared/domain/appointment/appointment.ts";
import { endTimeOfDay, timeOfDay } from "../../shared/domain/events/fields.ts";
import { DAY_MS, findDay, type LocalDay } from "../../shared/domain/time/local-time.ts";
import { toInstantInRange } from "../../shared/domain/time/rfc3339.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { calendarDate, instant, timeWindow, uuid } from "../http/fields.ts";
import {
  createLimitParameter,
  MAX_WINDOW_DAYS,
  statusParameter,
  toTimeWindow,
  windowParameters,
} from "../http/parameters.ts";
import {
  buildJsonElementsSql,
  buildJsonObjectSql,
  datedEnvelope,
  defineOperation,
  envelope,
  limitedPage,
} from "./operation.ts";

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

/** The lists have no pages, because a branch has fewer entries than this in 31 days. */
const MAX_RESOURCES = 1_000;
const MAX_TIME_SPANS = 10_000;

const freeFormObjectSchema = z.record(z.string(), z.unknown());

const resourceSchema = z.strictObject({
  id: uuid,
  resource_type: z.string(),
  name: z.string(),
  capacity: z.number().min(0),
  timezone: z.string(),
  status: z.string(),
  metadata: freeFormObjectSchema,
});

const ruleSchema = z.strictObject({
  id: uuid,
  resource_id: uuid,
  weekday: z.int().min(0).max(6).describe("0 is Sunday, 6 is Saturday."),
  starts_at: timeOfDay.describe("Start on the weekday, in the resource's time zone."),
  ends_at: endTimeOfDay.describe("End on the same weekday. `24:00:00` is the end of the day."),
  valid_from: calendarDate.nullable(),
  valid_until: calendarDate.nullable(),
  rule_type: z.string(),
  recurrence: freeFormObjectSchema.nullable(),
});

const assignmentSchema = z.strictObject({
  id: uuid,
  appointment_id: uuid,
  resource_id: uuid,
  allocation_start: instant,
  allocation_end: instant,
  status: z.string(),
});

const holdSchema = z.strictObject({
  id: uuid,
  resource_id: uuid.nullable(),
  starts_at: instant,
  ends_at: instant,
  expires_at: instant,
  status: z.string(),
});

/** $5: local days of the window. */
const resourcesSql = `SELECT resource_id, name, timezone, longest_allocation_seconds, availability_json,
    $5::jsonb -> timezone AS days FROM ${READ_MODEL_SCHEMA}.resource
  WHERE resource.clinic_id = access.clinic_id AND resource.branch_id = access.branch_id AND status = 'active'
  ORDER BY ${buildNameSortSql("name")}, resource_id
  LIMIT ${MAX_RESOURCES}`;

/** Selects rules that are valid on at least one day of the window, in the time zone of the rule's resource. */
const rulesSql = `SELECT t.* FROM resources r JOIN ${READ_MODEL_SCHEMA}.availability_rule t USING (resource_id)
  WHERE (t.valid_from IS NULL OR t.valid_from <= (r.days ->> 'lastDate')::date)
    AND (t.valid_until IS NULL OR t.valid_until >= (r.days ->> 'firstDate')::date)
  ORDER BY t.resource_id, t.weekday, t.starts_at, t.rule_id
  LIMIT ${MAX_TIME_SPANS}`;

/**
 * Selects only allocated assignments, because released assignments do not occupy a resource. An assignment that overlaps
 * the window starts no earlier than the window's start minus the resource's longest allocation. With this lower limit,
 * the index on the start time skips older assignments.
 */
const assignmentsSql = `SELECT g.* FROM resources r CROSS JOIN LATERAL (
    SELECT availability_json, allocation_start, assignment_id FROM ${READ_MODEL_SCHEMA}.assignment
    WHERE assignment.resource_id = r.resource_id AND status = 'allocated'
      AND allocation_start > $3::timestamptz - make_interval(secs => r.longest_allocation_seconds)
      AND allocation_start < $4::timestamptz AND allocation_end > $3::timestamptz
    ORDER BY allocation_start, assignment_id
    LIMIT ${MAX_TIME_SPANS}
  ) g
  ORDER BY g.allocation_start, g.assignment_id
  LIMIT ${MAX_TIME_SPANS}`;

const holdsSql = `SELECT * FROM ${READ_MODEL_SCHEMA}.hold
  WHERE hold.clinic_id = access.clinic_id AND hold.branch_id = access.branch_id AND status = 'active'
    AND expires_at > $2::timestamptz AND starts_at < $4::timestamptz AND ends_at > $3::timestamptz
  ORDER BY starts_at, hold_id
  LIMIT ${MAX_TIME_SPANS}`;

export const getAvailability = defineOperation({
  operationId: "getAvailability",
  path: "/api/v1/availability",
  summary: "Get availability rules and allocations",
  description:
    "Returns the active resources of the authorized branch, with their rules, assignments and holds in a window of at most 31 days. The response does not contain calculated bookable slots.",
  parameters: windowParameters,
  response: z.strictObject({
    ...envelope,
    window: timeWindow,
    context: z.strictObject({ clinicId: uuid, branchId: uuid, timezone: z.string() }),
    resources: z.array(resourceSchema),
    rules: z.array(ruleSchema),
    assignments: z.array(assignmentSchema),
    holds: z.array(holdSchema),
  }),
  sql: `WITH resources AS MATERIALIZED (${resourcesSql})
  SELECT coalesce((SELECT json_agg(timezone) FILTER (WHERE days IS NULL) FROM resources)::text, concat(
    '{"window":', json_build_object('from', rfc3339($3::timestamptz), 'to', rfc3339($4::timestamptz),
      'maximumDays', ${MAX_WINDOW_DAYS}),
    ',"context":', json_build_object('clinicId', access.clinic_id, 'branchId', access.branch_id,
      'timezone', access.timezone),
    ',"resources":[', (SELECT ${buildJsonElementsSql("r.availability_json", `${buildNameSortSql("r.name")}, r.resource_id`)}
      FROM resources r),
    '],"rules":[', (SELECT ${buildJsonElementsSql("t.availability_json", "t.resource_id, t.weekday, t.starts_at, t.rule_id")}
      FROM (${rulesSql}) t),
    '],"assignments":[', (SELECT ${buildJsonElementsSql("g.availability_json", "g.allocation_start, g.assignment_id")}
      FROM (${assignmentsSql}) g),
    '],"holds":[', (SELECT ${buildJsonElementsSql("h.availability_json", "h.starts_at, h.hold_id")} FROM (${holdsSql}) h), ']}'))`,
  getValues(parameters, now, timeZones) {
    const { from, to } = toTimeWindow(parameters, now);
    return [from, to, describeLocalDays(timeZones, Date.parse(from), Date.parse(to))];
  },
});

/** The lists have no pages, because a front desk has fewer entries than this per day. */
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

/** Selects today's appointments. $3: the local day of the request's time. */
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

/** About 2 MB. */
const MAX_CACHED_DAYS = 5_000;

/** Local days by time zone and day in UTC. A day in UTC is part of two local days, or of three if one has no length. */
const cachedDays = new LRUCache<string, LocalDay[]>({
  maxSize: MAX_CACHED_DAYS,
  sizeCalculation: ({ length }) => length,
});

/**
 * Describes the local days that overlap a time window, for a parameter of an SQL statement. Postgres converts no times,
 * because it may not know a time zone of this runtime, or know other offsets.
 *
 * @param fromMs start of the window, inclusive, in milliseconds since 1970
 * @param toMs end of the window, exclusive, in milliseconds since 1970
 * @returns a JSON object by time zone. `from` and `to` limit all days together; `firstDate` and `lastDate` are their dates
 */
export function describeLocalDays(timeZones: readonly string[], fromMs: number, toMs: number): string {
  const entries = timeZones.map((timeZone) => {
    const [first, last] = [findCachedDay(timeZone, fromMs), findCachedDay(timeZone, toMs - 1)];
    const [firstDate, lastDate] = [toPostgresTime(first.dateMs).slice(0, 10), toPostgresTime(last.dateMs).slice(0, 10)];
    return [timeZone, { firstDate, lastDate, from: toPostgresTime(first.fromMs), to: toPostgresTime(last.toMs) }];
  });
  return JSON.stringify(Object.fromEntries(entries));
}

function findCachedDay(timeZone: string, epochMs: number): LocalDay {
  const key = `${timeZone} ${Math.floor(epochMs / DAY_MS)}`;
  const days = cachedDays.get(key) ?? [];
  const cachedDay = days.find(({ fromMs, toMs }) => fromMs <= epochMs && epochMs < toMs);
  if (cachedDay) return cachedDay;
  const day = findDay(timeZone, epochMs);
  cachedDays.set(key, [...days, day]);
  return day;
}

/**
 * Converts a time to Postgres text. Times outside the years 1 to 9999 become infinite, because no stored time is
 * earlier or later.
 */
function toPostgresTime(epochMs: number): string {
  return toInstantInRange(epochMs) ?? (epochMs < 0 ? "-infinity" : "infinity");
}
