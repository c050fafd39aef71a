import type Koa from "koa";
import type pg from "pg";
import { z } from "zod";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { findNames, namesQuerySchema } from "../names/find-names.ts";
import { appointmentsQuerySchema, listAppointments } from "../names/list-appointments.ts";
import { listClinics } from "../names/list-clinics.ts";
import { searchNames, searchQuerySchema } from "../names/search-names.ts";
import { type AuditContext, type AuditHandler, readQuery, recordRequestAccess } from "./audited-query.ts";
import type { TakeSlot } from "./scan-slots.ts";

/** Placeholder for a searched name, because the event log must not contain it. */
const WITHHELD_TEXT = "(withheld)";

interface NameDependencies {
  log: EventLog;
  pool: pg.Pool;
}

/** GET /audit/v1/clinics: the clinics in the auditor's scope. */
export function sendClinics({ log, pool }: NameDependencies): AuditHandler {
  return async (ctx) => {
    readQuery(ctx.query, z.strictObject({}));
    const { clinics, isComplete } = await listClinics(pool, ctx.state.auditor.clinicIds);
    await recordRequestAccess(log, ctx, "clinics", {}, { found: clinics.map(({ id }) => id) });
    ctx.body = { ok: true, clinics, isComplete };
  };
}

/**
 * POST /audit/v1/search: customers, animals and staff members by name. The name is in the body, because proxies log
 * URLs. The recorded access contains the ids of the results instead of the name.
 */
export function sendSearchResults({
  log,
  pool,
  takeStateSlot,
}: NameDependencies & { takeStateSlot: TakeSlot }): AuditHandler {
  return async (ctx) => {
    const { auditor } = ctx.state;
    const query = readQuery(getBody(ctx), searchQuerySchema);
    const releaseSlot = takeStateSlot(auditor);
    const { results, isComplete } = await searchNames(pool, query, auditor.clinicIds).finally(releaseSlot);
    const found = new Set(results.flatMap(({ id, customer }) => (customer ? [id, customer.id] : [id])));
    const clinicIds = new Set(results.map(({ clinicId }) => clinicId));
    const recordedQuery = { ...query, name: WITHHELD_TEXT };
    await recordRequestAccess(log, ctx, "search", recordedQuery, { found: [...found], clinicIds: [...clinicIds] });
    ctx.body = { ok: true, results, isComplete };
  };
}

/** GET /audit/v1/appointments: the appointments of a clinic on one day. */
export function sendAppointments({ log, pool }: NameDependencies): AuditHandler {
  return async (ctx) => {
    const query = readQuery(ctx.query, appointmentsQuerySchema);
    const { appointments, isComplete } = await listAppointments(pool, query, ctx.state.auditor.clinicIds);
    const found = appointments.flatMap(({ id, animal, customer }) =>
      [id, animal?.id, customer?.id].filter((foundId) => foundId !== undefined),
    );
    await recordRequestAccess(log, ctx, "appointments", { ...ctx.query }, { found: [...new Set(found)] });
    ctx.body = { ok: true, appointments, isComplete };
  };
}

/** GET /audit/v1/names: the names of records. */
export function sendNames({ log, pool }: NameDependencies): AuditHandler {
  return async (ctx) => {
    const { ids } = readQuery(ctx.query, namesQuerySchema);
    const names = await findNames(pool, ids, ctx.state.auditor.clinicIds);
    const found = [...new Set(names.map(({ id }) => id))];
    const clinicIds = new Set(names.flatMap(({ clinicId }) => (clinicId === null ? [] : [clinicId])));
    // The ids of the query are not recorded, because they can be ids of records outside the auditor's scope.
    await recordRequestAccess(log, ctx, "names", {}, { found, clinicIds: [...clinicIds] });
    ctx.body = { ok: true, names };
  };
}

function getBody(ctx: AuditContext): unknown {
  return (ctx.request as Koa.Request & { body?: unknown }).body;
}
