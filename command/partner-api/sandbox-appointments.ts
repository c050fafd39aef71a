/** Changes of appointments in the sandbox, with which a partner rehearses what the staff of a clinic does. */
import type Koa from "koa";
import type { z } from "zod";
import type { Appointment } from "../../shared/domain/appointment/appointment.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { isFixtureAppointment } from "../../shared/domain/partner/sandbox.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { toPartnerAppointment } from "../../shared/partner-api/records.ts";
import { appointmentMove, appointmentTransition } from "../../shared/partner-api/request-bodies.ts";
import { changeAppointmentStatus, rescheduleAppointment } from "../operations/appointment-operations.ts";
import type { Operation } from "../operations/operation.ts";
import { loadSandbox } from "../operations/sandbox-operations.ts";
import { parseBody } from "./errors.ts";
import { readPathId, toCommandContext, type WriteState } from "./request-context.ts";

/** POST /appointments/:appointmentId/transitions: returns 200 with the appointment. */
export const changeSandboxAppointmentStatus = ({ log }: { log: EventLog }): Koa.Middleware<WriteState> =>
  changeOwnAppointment(log, appointmentTransition, changeAppointmentStatus);

/** POST /appointments/:appointmentId/reschedule: returns 200 with the appointment. */
export const rescheduleSandboxAppointment = ({ log }: { log: EventLog }): Koa.Middleware<WriteState> =>
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
