import { z } from "zod";
import { endTimeOfDay, timeOfDay } from "../../shared/domain/events/fields.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { calendarDate, instant, timeWindow, uuid } from "../http/fields.ts";
import { MAX_WINDOW_DAYS, toTimeWindow, windowParameters } from "../http/parameters.ts";
import { describeLocalDays } from "./local-days.ts";
import { buildJsonElementsSql, defineOperation, envelope } from "./operation.ts";

/** Limits of the lists, which have no pages. A real branch stays below these limits in the 31 days of a query. */
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

/** Selects the active resources of the authorized branch. $5: local days of the window, by time zone. */
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
