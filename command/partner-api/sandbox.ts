import type { z } from "zod";
import type { Appointment } from "../../shared/domain/appointment/appointment.ts";
import { type Clinic, clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import { type SandboxRecord, toPartnerAppointment } from "../../shared/partner-api/records.ts";
import { appointmentMove, appointmentTransition, sandboxAccess } from "../../shared/partner-api/request-bodies.ts";
import { changeAppointmentStatus, rescheduleAppointment } from "../operations/appointment-operations.ts";
import * as installations from "../operations/installation-operations.ts";
import type { Operation } from "../operations/operation.ts";
import * as sandboxes from "../operations/sandbox-operations.ts";
import { parseBody } from "./errors.ts";
import { readPathId, type WriteHandler } from "./request-context.ts";

/** POST /sandbox/reset: returns 200 with the application's sandbox after the reset. */
export const resetSandbox: WriteHandler = async ({ log, decide }, ctx, context) => {
  const { state: clinic } = await decide((load) => load(clinicAggregate, ctx.state.clinicId));
  const sandbox = await sandboxes.resetSandbox(log, ctx.state, context);
  return {
    logPosition: sandbox.position,
    body: { sandbox: toSandboxRecord(sandbox, requireExisting(clinic, "clinic")) },
  };
};

/** POST /sandbox/access: changes the accessible animals and branches. Returns 200 with the new access. */
export const changeSandboxAccess: WriteHandler = async ({ log }, ctx, context) => {
  const access = parseBody(ctx, sandboxAccess);
  const { applicationId, clinicId } = ctx.state;
  const { statePosition } = await installations.changeSandboxAccess(
    log,
    { applicationId, clinicId, ...access },
    context,
  );
  return { logPosition: statePosition, body: { access } };
};

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
 * POST /appointments/:appointmentId/transitions: changes the status of a sandbox appointment, as the staff of a clinic
 * would. Returns 200 with the appointment.
 */
export const changeSandboxAppointmentStatus = changeAppointment(appointmentTransition, changeAppointmentStatus);

/** POST /appointments/:appointmentId/reschedule: returns 200 with the appointment. */
export const rescheduleSandboxAppointment = changeAppointment(appointmentMove, (log, move, context) =>
  rescheduleAppointment(log, { ...move, reason: null }, context),
);

function changeAppointment<Body>(
  bodySchema: z.ZodType<Body>,
  change: Operation<Body & { appointmentId: string; clinicId: string }, Appointment>,
): WriteHandler {
  return async ({ log }, ctx, context) => {
    const body = parseBody(ctx, bodySchema);
    const { applicationId, clinicId } = ctx.state;
    const appointmentId = requireExisting(readPathId(ctx, "appointmentId"), "appointment");
    const sandbox = await sandboxes.loadSandbox(log, applicationId);
    // An appointment of the fixture has no stream.
    if (
      sandbox?.events.some(({ type, data }) => type === "AppointmentRequested" && data.appointmentId === appointmentId)
    )
      throw new DomainError("fixture_appointment", "the appointment is part of the fixture");
    const { state, statePosition, revision } = await change(log, { ...body, appointmentId, clinicId }, context);
    const appointment = toPartnerAppointment(requireExisting(state, "appointment"), revision);
    return { logPosition: statePosition, body: { appointment } };
  };
}
