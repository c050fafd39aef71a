import { z } from "zod";
import { MAX_APPOINTMENT_MINUTES } from "../../shared/domain/events/appointment.ts";
import { boundedText, uuid } from "../../shared/domain/events/fields.ts";
import { listSlots as findSlots } from "../../shared/domain/scheduling/free-times.ts";
import { formatLocalTime, MINUTE_MS } from "../../shared/domain/time/local-time.ts";
import { toInstant, toInstantInRange } from "../../shared/domain/time/rfc3339.ts";
import {
  buildEntitlementInEffectSql,
  buildSearchedResourcesSql,
  MAX_SEARCHED_RESOURCES,
  SCHEDULING_ENTITLEMENT,
  searchedResources,
} from "../../shared/partner-api/slot-search.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { timeWindow } from "../http/fields.ts";
import {
  createFilterParameter,
  createIntegerParameter,
  createLimitParameter,
  MAX_WINDOW_DAYS,
  toTimeWindow,
  windowParameters,
} from "../http/parameters.ts";
import { buildIsBranchVisibleSql, definePartnerRead } from "./read.ts";

const instant = z.iso.datetime({ precision: 3 });

const slot = z.strictObject({
  startsAt: instant,
  localStart: z.iso
    .datetime({ offset: true })
    .describe("The same time in the clinic's time zone, with its offset from UTC at that time."),
  resourceIds: z.array(z.guid()).describe("Resources that are free for the whole duration, sorted by name."),
});

const slotResource = z.strictObject({ id: z.guid(), branchId: z.guid(), type: z.string(), name: z.string() });

const foundSearch = z.object({ timezone: z.string(), gridMinutes: z.number(), resources: searchedResources });

/** Lists free times. Ignores reservations without an appointment, which the read models do not contain. */
export const listSlots = definePartnerRead({
  operationId: "listSlots",
  description: `Lists free starting times in a window of at most 31 days, sorted by time. A resource is free if it is open and has a free place for the whole duration. Book one with \`POST /appointments\`. Somebody else can be faster, and the booking then returns 422 \`slot_taken\`. A search covers at most ${MAX_SEARCHED_RESOURCES} resources.`,
  parameters: {
    ...windowParameters,
    branchId: createFilterParameter("Returns only resources of this branch.", uuid),
    resourceId: createFilterParameter("Returns only this resource.", uuid),
    resourceType: createFilterParameter("Returns only resources of this type.", boundedText(60)),
    durationMinutes: createIntegerParameter("Duration of the appointment in minutes.", {
      ...{ minimum: 1, maximum: MAX_APPOINTMENT_MINUTES, default: 30 },
    }),
    limit: createLimitParameter(1_000, 250),
  },
  response: z.strictObject({
    ok: z.literal(true),
    window: timeWindow,
    timezone: z.string().describe("Time zone of the clinic."),
    durationMinutes: z.int().min(1),
    resources: z.array(slotResource).describe("Active resources that match the filters, sorted by name."),
    slots: z.array(slot),
  }),
  refusals: { entitlement_required: 403 },
  sql: `SELECT CASE WHEN NOT EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.entitlement e WHERE e.clinic_id = c.clinic_id
      AND e.key = '${SCHEDULING_ENTITLEMENT}' AND ${buildEntitlementInEffectSql("$6::timestamptz")})
      THEN 'entitlement_required' END AS refusal,
    json_build_object('timezone', c.timezone, 'gridMinutes', c.slot_grid_minutes, 'resources', ${buildSearchedResourcesSql(
      `r.clinic_id = $1::uuid AND ${buildIsBranchVisibleSql("r.branch_id")}
        AND ($7::uuid IS NULL OR r.branch_id = $7::uuid) AND ($8::uuid IS NULL OR r.resource_id = $8::uuid)
        AND ($9::text IS NULL OR r.resource_type = $9::text)`,
      { from: "$4::timestamptz", to: "$5::timestamptz", now: "$6::timestamptz" },
    )})::text AS body
    FROM ${READ_MODEL_SCHEMA}.clinic c WHERE c.clinic_id = $1::uuid`,
  getSqlParameters({ state, parameters }) {
    const { clinicId, installation, branchId, now } = state;
    const window = toTimeWindow(parameters, now);
    // An appointment that begins before the end of the window can end a day later.
    const endsAt = toInstantInRange(Date.parse(window.to) + MAX_APPOINTMENT_MINUTES * MINUTE_MS) ?? window.to;
    const filters = [parameters.branchId, parameters.resourceId, parameters.resourceType];
    return [clinicId, installation.branchIds, branchId, window.from, endsAt, toInstant(now), ...filters];
  },
  completeBody(body, { state: { now }, parameters }) {
    const { timezone, gridMinutes, resources } = foundSearch.parse(JSON.parse(body));
    const { durationMinutes, limit } = parameters;
    const { from, to } = toTimeWindow(parameters, now);
    const window = { fromMs: Date.parse(from), toMs: Date.parse(to) };
    const slots = findSlots(resources, { ...window, durationMinutes, gridMinutes, nowMs: now }, limit);
    return JSON.stringify({
      window: { from, to, maximumDays: MAX_WINDOW_DAYS },
      timezone,
      durationMinutes,
      resources: resources.map(({ id, branchId, type, name }) => ({ id, branchId, type, name })),
      slots: slots.map(({ startMs, resourceIds }) => {
        return { startsAt: toInstant(startMs), localStart: formatLocalTime(timezone, startMs), resourceIds };
      }),
    });
  },
});
