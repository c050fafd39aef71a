import type Koa from "koa";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { isVisible } from "../access/visibility.ts";
import { type AuditEvent, revealEvent } from "../log/audit-event.ts";
import { readStreamEvents } from "../log/read-stream.ts";
import { appointmentsQuerySchema, listAppointments } from "../names/list-appointments.ts";
import { queryReadModels } from "../names/read-models.ts";
import { searchNames, searchQuerySchema } from "../names/search-names.ts";
import {
  type AuditContext,
  type AuditDependencies,
  type AuditHandler,
  emptyQuerySchema,
  readQuery,
  recordNamedAccess,
  recordRequestAccess,
} from "./queries.ts";

/** Placeholder that is recorded instead of a searched name, because the name is personal data. */
const WITHHELD_TEXT = "(withheld)";

const MAX_CLINICS = 1_000;

/**
 * Selects the permitted clinics, production before sandbox, then by name. $1: ids of the permitted clinics (null for
 * all).
 */
const CLINICS_SQL = `SELECT clinic_id AS id, name, timezone, environment, status FROM ${READ_MODEL_SCHEMA}.clinic
  WHERE $1::uuid[] IS NULL OR clinic_id = ANY ($1::uuid[])
  ORDER BY environment, ${buildNameSortSql("name")}, clinic_id LIMIT ${MAX_CLINICS + 1}`;

/** GET /audit/v1/clinics: the clinics in the auditor's scope. */
export function sendClinics({ log, pool }: AuditDependencies): AuditHandler {
  return async (ctx) => {
    readQuery(ctx.query, emptyQuerySchema);
    const statement = { name: "clinics of an auditor", text: CLINICS_SQL, values: [ctx.state.auditor.clinicIds] };
    const rows = await queryReadModels<{ id: string }>(pool, statement);
    const clinics = rows.slice(0, MAX_CLINICS);
    await recordRequestAccess(log, ctx, "clinics", {}, { found: clinics.map(({ id }) => id) });
    ctx.body = { ok: true, clinics, isComplete: rows.length <= MAX_CLINICS };
  };
}

/**
 * POST /audit/v1/search: finds customers, animals and staff members by name. The name is in the body, because proxies
 * log URLs. The access is recorded with the ids of the results, but without the name.
 */
export function sendSearchResults({ log, pool }: AuditDependencies): AuditHandler {
  return async (ctx) => {
    const { auditor } = ctx.state;
    const query = readQuery(getBody(ctx), searchQuerySchema);
    const { results, isComplete } = await searchNames(pool, query, auditor.clinicIds);
    const found = new Set(results.flatMap(({ id, customer }) => (customer ? [id, customer.id] : [id])));
    const clinicIds = new Set(results.map(({ clinicId }) => clinicId));
    const recordedQuery = { ...query, name: WITHHELD_TEXT };
    await recordRequestAccess(log, ctx, "search", recordedQuery, { found: [...found], clinicIds: [...clinicIds] });
    ctx.body = { ok: true, results, isComplete };
  };
}

/**
 * GET /audit/v1/appointments: the appointments of a clinic on one day. For moved appointments, the response also
 * contains the events that set or changed their time.
 */
export function sendAppointments(dependencies: AuditDependencies): AuditHandler {
  return async (ctx) => {
    const { clinicIds } = ctx.state.auditor;
    const query = readQuery(ctx.query, appointmentsQuerySchema);
    const { appointments, isComplete } = await listAppointments(dependencies.pool, query, clinicIds);
    const ids = appointments.flatMap(({ id, animal, customer }) => [id, animal?.id ?? [], customer?.id ?? []].flat());
    const movedIds = new Set(appointments.flatMap(({ id, isMoved }) => (isMoved ? id : [])));
    const events: AuditEvent[] = [];
    for (const id of [...movedIds].slice(0, MAX_MOVED_APPOINTMENTS))
      events.push(...(await readSchedulings(`appointment-${id}`, clinicIds, dependencies)));
    const found = { found: [...new Set(ids)], clinicIds: [] };
    const names = await recordNamedAccess(dependencies, ctx, "appointments", { ...ctx.query }, events, found);
    ctx.body = { ok: true, appointments, isComplete, events, names };
  };
}

/** Maximum number of moved appointments whose events are read. */
const MAX_MOVED_APPOINTMENTS = 20;

const SCHEDULING_TYPES = ["AppointmentRequested", "AppointmentImported", "AppointmentRescheduled"];

async function readSchedulings(
  stream: string,
  clinicIds: readonly string[] | null,
  { client, dataKeys }: AuditDependencies,
): Promise<AuditEvent[]> {
  const events: AuditEvent[] = [];
  for await (const logEvent of readStreamEvents(client, stream))
    if (SCHEDULING_TYPES.includes(logEvent.auditEvent.type) && isVisible(logEvent.auditEvent, clinicIds))
      events.push((await revealEvent(logEvent, dataKeys)).auditEvent);
  return events;
}

function getBody(ctx: AuditContext): unknown {
  return (ctx.request as Koa.Request & { body?: unknown }).body;
}
