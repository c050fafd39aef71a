import { createHash } from "node:crypto";
import type { Decision } from "../../shared/domain/aggregate.ts";
import {
  type Appointment,
  appointmentAggregate,
  decideAllocate,
  decideCancel,
  decideCheckIn,
  decideComplete,
  decideConfirm,
  decideMarkNoShow,
  decidePutInWaiting,
  decideRelease,
  decideReschedule,
  decideStartConsultation,
} from "../../shared/domain/appointment/appointment.ts";
import {
  type AppointmentImport,
  decideImport,
  deriveOccurredAt,
} from "../../shared/domain/appointment/import.ts";
import { type AppointmentRequest, decideRequest } from "../../shared/domain/appointment/request.ts";
import { animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { type Clinic, refuseSandbox, restrictToOpenClinic } from "../../shared/domain/clinic/clinic.ts";
import { customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { resourceAggregate } from "../../shared/domain/clinic/resource.ts";
import type { AppointmentEvent } from "../../shared/domain/events/appointment.ts";
import { requireOwnedBy } from "../../shared/domain/preconditions.ts";
import type { Instant } from "../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type Handled, handle, load } from "../handling/handle.ts";
import { clinicOperation, loadClinicOf, loadOwnedBy, type Operation } from "./operation.ts";

/**
 * Identifies an appointment of a clinic. An appointment of another clinic is refused with `appointment_not_found`.
 */
export interface AppointmentOf {
  clinicId: string;
  appointmentId: string;
}

/** Requests an appointment at the clinic's front desk. Repeating the request with the same id changes nothing. */
export async function requestAppointment(
  log: EventLog,
  input: Omit<AppointmentRequest, "applicationId" | "requestHash" | "sandboxGeneration">,
  context: CommandContext,
): Promise<Handled<Appointment>> {
  const { clinic, context: ofClinic } = await loadClinicOf(log, input.clinicId, context);
  refuseSandbox(clinic);
  const animal =
    input.animalId === null ? undefined : (await load(log, animalAggregate, input.animalId)).state;
  const { appointmentId, clinicId, branchId, animalId, scheduledAt, durationMinutes, reason, notes } = input;
  const asked = { appointmentId, clinicId, branchId, animalId, scheduledAt, durationMinutes, reason, notes };
  const requestHash = createHash("sha256").update(JSON.stringify(asked)).digest("hex");
  const request = { ...asked, applicationId: null, requestHash, sandboxGeneration: 0 };
  const facts = { clinic, animal, permittedBranchIds: null, now: context.now };
  const decide = restrictToOpenClinic(clinic, decideRequest(request, facts));
  return handle(log, appointmentAggregate, appointmentId, decide, ofClinic);
}

/** Creates an operation that changes an appointment of the clinic. */
function move<Command extends AppointmentOf>(
  decide: (command: Command, now: number) => Decision<Appointment, AppointmentEvent>,
): Operation<Command, Appointment> {
  return clinicOperation(
    appointmentAggregate,
    ({ appointmentId }) => appointmentId,
    (command, clinic, now) => (state) =>
      decide(command, now)(requireOwnedBy(clinic.id, current(state, clinic), "appointment")),
  );
}

/** Hides appointments from before the last reset of a sandbox. */
function current(state: Appointment | undefined, { sandboxGeneration }: Clinic): Appointment | undefined {
  return state?.sandboxGeneration === sandboxGeneration ? state : undefined;
}

export const confirmAppointment = move(decideConfirm);
export const checkInAppointment = move(decideCheckIn);
export const putAppointmentInWaiting = move(decidePutInWaiting);
export const startConsultation = move(decideStartConsultation);
export const completeAppointment = move(decideComplete);
export const cancelAppointment = move(({ reason }: AppointmentOf & { reason: string | null }) =>
  decideCancel(reason),
);
export const markNoShow = move((_, now) => decideMarkNoShow(now));
export const rescheduleAppointment = move(
  (to: AppointmentOf & { scheduledAt: Instant; durationMinutes?: number }, now) => decideReschedule(to, now),
);
export const releaseResource = move(({ assignmentId }: AppointmentOf & { assignmentId: string }) =>
  decideRelease(assignmentId),
);

/** Allocates a resource of the branch to an appointment. */
export async function allocateResource(
  log: EventLog,
  input: AppointmentOf & {
    assignmentId: string;
    resourceId: string;
    allocationStart: Instant;
    allocationEnd: Instant;
  },
  context: CommandContext,
): Promise<Handled<Appointment>> {
  const { clinicId, appointmentId, assignmentId, resourceId, allocationStart, allocationEnd } = input;
  const resource = await loadOwnedBy(log, resourceAggregate, resourceId, clinicId, "resource");
  const allocate = move<AppointmentOf>(() =>
    decideAllocate({ assignmentId, allocationStart, allocationEnd }, resource),
  );
  return allocate(log, { clinicId, appointmentId }, context);
}

/**
 * Imports an appointment from another system with its status. The event has the time at which the appointment reached
 * that status. Partners are not notified.
 *
 * @throws {DomainError} `clinic_not_found`, `clinic_closed`, `clinic_is_a_sandbox`, and what {@link decideImport}
 *   throws
 */
export async function importAppointment(
  log: EventLog,
  input: Omit<AppointmentImport, "requestHash">,
  context: CommandContext,
): Promise<Handled<Appointment>> {
  const { appointmentId, clinicId, animalId, customerId, resourceIds } = input;
  const { clinic, context: ofClinic } = await loadClinicOf(log, clinicId, context);
  refuseSandbox(clinic);
  const { now } = context;
  const [animal, customer, ...resources] = await Promise.all([
    animalId === null ? undefined : load(log, animalAggregate, animalId).then(({ state }) => state),
    customerId === null ? undefined : load(log, customerAggregate, customerId).then(({ state }) => state),
    ...resourceIds.map(async (id) => (await load(log, resourceAggregate, id)).state),
  ]);
  const asked = { ...input, requestHash: hashOf(input) };
  const decide = restrictToOpenClinic(
    clinic,
    decideImport(asked, { clinic, animal, customer, resources, now }),
  );
  const happened = { ...ofClinic, now: deriveOccurredAt(asked, now) };
  return handle(log, appointmentAggregate, appointmentId, decide, happened);
}

/** Hashes the imported data independently of the order of its members. */
function hashOf(input: Omit<AppointmentImport, "requestHash">): string {
  const members = Object.entries(input).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(members)).digest("hex");
}
