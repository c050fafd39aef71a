import type Koa from "koa";
import type { z } from "zod";
import type { Appointment } from "../../shared/domain/appointment/appointment.ts";
import { type Clinic, clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { isFixtureAppointment, type Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { type SandboxRecord, toPartnerAppointment } from "../../shared/partner-api/records.ts";
import { appointmentMove, appointmentTransition, sandboxAccess } from "../../shared/partner-api/request-bodies.ts";
import { changeAppointmentStatus, rescheduleAppointment } from "../operations/appointment-operations.ts";
import { changeSandboxAccess } from "../operations/installation-operations.ts";
import type { Operation } from "../operations/operation.ts";
import { loadSandbox, resetSandbox } from "../operations/sandbox-operations.ts";
import { parseBody } from "./errors.ts";
import { type PartnerService, readPathId, toCommandContext, type WriteState } from "./request-context.ts";

/** POST /sandbox/reset: returns 200 with the application's sandbox after the reset. */
export function resetOwnSandbox({ log, decide }: PartnerService): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const { state: clinic } = await decide((load) => load(clinicAggregate, ctx.state.clinicId));
    const sandbox = await resetSandbox(log, ctx.state, toCommandContext(ctx.state));
    ctx.state.logPosition = sandbox.position;
    ctx.body = { ok: true, sandbox: toSandboxRecord(sandbox, requireExisting(clinic, "clinic")) };
  };
}

/** POST /sandbox/access: returns 200 with the access. */
export function changeOwnAccess({ log }: PartnerService): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const access = parseBody(ctx, sandboxAccess);
    const { applicationId, clinicId } = ctx.state;
    const context = toCommandContext(ctx.state);
    const { statePosition } = await changeSandboxAccess(log, { applicationId, clinicId, ...access }, context);
    ctx.state.logPosition = statePosition;
    ctx.body = { ok: true, access };
  };
}

/** Converts a sandbox to its form in the partner API, which GET /sandbox also returns. */
function toSandboxRecord({ clinicId, generation, resetAt, day, events }: Sandbox, clinic: Clinic): SandboxRecord {
  const animals = events.flatMap((event) => {
    if (event.type !== "AnimalRegistered") return [];
    const { animalId: id, name, species } = event.data;
    return [{ id, name, species }];
  });
  const branches = clinic.branches.map(({ id, name }) => ({ id, name }));
  const appointmentCount = events.filter(({ type }) => type === "AppointmentRequested").length;
  return {
    clinicId,
    generation,
    resetAt,
    day,
    branches: branches.sort(compareByName),
    animals: animals.sort(compareByName),
    appointments: appointmentCount,
  };
}

interface NamedObject {
  id: string;
  name: string;
}

/** Compares names by their UTF-8 bytes, like collation "C" in the SQL of GET /sandbox. Equal names are compared by id. */
function compareByName(left: NamedObject, right: NamedObject): number {
  return Buffer.compare(Buffer.from(left.name), Buffer.from(right.name)) || (left.id < right.id ? -1 : 1);
}

/**
 * POST /appointments/:appointmentId/transitions: returns 200 with the appointment. With these operations, a partner
 * rehearses what the staff of a clinic does.
 */
export const changeSandboxAppointmentStatus = ({ log }: PartnerService): Koa.Middleware<WriteState> =>
  changeOwnAppointment(log, appointmentTransition, changeAppointmentStatus);

/** POST /appointments/:appointmentId/reschedule: returns 200 with the appointment. */
export const rescheduleSandboxAppointment = ({ log }: PartnerService): Koa.Middleware<WriteState> =>
  changeOwnAppointment(log, appointmentMove, async (eventLog, command, context) => {
    if (Date.parse(command.scheduledAt) <= context.now) {
      const details = [{ path: "scheduledAt", message: "must be in the future" }];
      throw new ApiError(422, "validation_failed", { details });
    }
    return rescheduleAppointment(eventLog, { ...command, reason: null }, context);
  });

function changeOwnAppointment<Body>(
  log: EventLog,
  bodySchema: z.ZodType<Body>,
  change: Operation<Body & { appointmentId: string; clinicId: string }, Appointment>,
): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const body = parseBody(ctx, bodySchema);
    const { applicationId, clinicId } = ctx.state;
    const appointmentId = readPathId(ctx, "appointmentId");
    if (appointmentId === undefined) throw new DomainError("appointment_not_found", "the path has no valid id");
    const sandbox = await loadSandbox(log, applicationId);
    if (sandbox && isFixtureAppointment(sandbox, appointmentId))
      throw new DomainError("fixture_appointment", "the appointment is part of the fixture");
    const command = { ...body, appointmentId, clinicId };
    const { state, statePosition, revision } = await change(log, command, toCommandContext(ctx.state));
    ctx.state.logPosition = statePosition;
    ctx.body = { ok: true, appointment: toPartnerAppointment(requireExisting(state, "appointment"), revision) };
  };
}
