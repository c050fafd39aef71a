import { z } from "zod";
import type { SearchedResource } from "../domain/scheduling/free-times.ts";
import { READ_MODEL_SCHEMA } from "../postgres/read-model-schema.ts";

/** Entitlement that searches and bookings of free times require. */
export const SCHEDULING_ENTITLEMENT = "scheduling.advanced";

/** Returns an SQL condition that is true if the entitlement `e` is in effect at the time `now`. */
export function buildEntitlementInEffectSql(now: string): string {
  return `(e.enabled AND (e.effective_until IS NULL OR e.effective_until > ${now}))`;
}

/** Maximum number of resources in a search. */
export const MAX_SEARCHED_RESOURCES = 200;

const MAX_OCCUPATIONS = 5_000;

const toMillisecondsSql = (column: string) => `extract(epoch FROM ${column}) * 1000`;

const HOLD_SPAN = `'fromMs', ${toMillisecondsSql("s.starts_at")}, 'toMs', ${toMillisecondsSql("s.ends_at")}`;

/** SQL expressions of the searched window and the current time. */
type WindowSql = Record<"from" | "to" | "now", string>;

const buildActiveHoldSql = ({ from, to, now }: WindowSql) =>
  `s.status = 'active' AND s.expires_at > ${now} AND s.starts_at < ${to} AND s.ends_at > ${from}`;

const buildSpansSql = (members: string, table: string, condition: string) => `coalesce((
  SELECT json_agg(s.json) FROM (SELECT json_build_object(${members}) AS json FROM ${READ_MODEL_SCHEMA}.${table} s
    WHERE ${condition} LIMIT ${MAX_OCCUPATIONS}) s), '[]')`;

/**
 * Returns the SQL expression for a JSON array of the holds that block a whole branch. {@link closures} parses the
 * array.
 */
export function buildClosuresSql(search: Record<"clinicId" | "branchId", string> & WindowSql): string {
  return buildSpansSql(
    HOLD_SPAN,
    "hold",
    `s.clinic_id = ${search.clinicId} AND s.branch_id = ${search.branchId} AND s.resource_id IS NULL
      AND ${buildActiveHoldSql(search)}`,
  );
}

/**
 * Returns an SQL expression for a JSON array of active resources, with everything that determines their free times.
 * {@link searchedResources} parses the array.
 *
 * @param condition SQL condition on a row `r` of the read model `resource`, which must select one clinic
 */
export function buildSearchedResourcesSql(condition: string, parameters: WindowSql): string {
  const { from, to } = parameters;
  const ofClinic = "s.clinic_id = r.clinic_id";
  const holdSql = `${ofClinic} AND s.resource_id = r.resource_id AND s.branch_id = r.branch_id
    AND ${buildActiveHoldSql(parameters)}`;
  return `coalesce((SELECT json_agg(json_build_object(
      'id', r.resource_id, 'branchId', r.branch_id, 'type', r.resource_type, 'name', r.name, 'capacity', r.capacity,
      'timezone', r.timezone,
      'rules', coalesce((SELECT json_agg(json_build_object('weekday', t.weekday, 'startsAt', t.starts_at,
          'endsAt', t.ends_at, 'validFrom', t.valid_from, 'validUntil', t.valid_until, 'ruleType', t.rule_type,
          'recurrence', t.recurrence)) FROM ${READ_MODEL_SCHEMA}.availability_rule t
        WHERE t.resource_id = r.resource_id AND t.clinic_id = r.clinic_id), '[]'),
      'allocations', ${buildSpansSql(
        `'ownerId', s.appointment_id, 'fromMs', ${toMillisecondsSql("s.allocation_start")},
          'toMs', ${toMillisecondsSql("s.allocation_end")}`,
        "assignment",
        `${ofClinic} AND s.resource_id = r.resource_id AND s.status = 'allocated'
          AND s.allocation_start > ${from} - make_interval(secs => r.longest_allocation_seconds)
          AND s.allocation_start < ${to} AND s.allocation_end > ${from}`,
      )},
      'holds', ${buildSpansSql(`'ownerId', s.hold_id, ${HOLD_SPAN}`, "hold", holdSql)},
      'closures', ${buildClosuresSql({ clinicId: "r.clinic_id", branchId: "r.branch_id", ...parameters })}
    ) ORDER BY r.name, r.resource_id) FROM (
      SELECT resource_id, clinic_id, branch_id, resource_type, name, capacity, timezone, longest_allocation_seconds
      FROM ${READ_MODEL_SCHEMA}.resource r WHERE r.status = 'active' AND ${condition} ORDER BY r.name, r.resource_id LIMIT ${MAX_SEARCHED_RESOURCES}) r), '[]')`;
}

const span = z.object({ fromMs: z.number(), toMs: z.number() });
export const closures = z.array(span);
const occupation = span.extend({ ownerId: z.string() });

export const searchedResources = z.array(
  z
    .object({
      ...{ id: z.string(), branchId: z.string(), type: z.string(), name: z.string() },
      ...{ capacity: z.number(), timezone: z.string(), closures },
      rules: z.array(
        z.object({
          ...{ weekday: z.number(), startsAt: z.string(), endsAt: z.string(), ruleType: z.string() },
          ...{ validFrom: z.string().nullable(), validUntil: z.string().nullable() },
          recurrence: z.record(z.string(), z.unknown()).nullable(),
        }),
      ),
      ...{ allocations: z.array(occupation), holds: z.array(occupation) },
    })
    .transform(({ allocations, holds, ...resource }) => ({ ...resource, occupations: [...allocations, ...holds] })),
) satisfies z.ZodType<SearchedResource[]>;
export type ListedResource = z.output<typeof searchedResources>[number];
