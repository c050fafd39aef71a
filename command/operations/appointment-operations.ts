import { hash } from "node:crypto";
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
import { type AppointmentImport, decideImport, deriveOccurredAt } from "../../shared/domain/appointment/import.ts";
import { type AppointmentRequest, decideRequest } from "../../shared/domain/appointment/request.ts";
import { type Animal, animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { type Clinic, refuseSandbox, restrictToOpenClinic } from "../../shared/domain/clinic/clinic.ts";
import { type Customer, customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { type Resource, resourceAggregate } from "../../shared/domain/clinic/resource.ts";
import type { AppointmentEvent } from "../../shared/domain/events/appointment.ts";
import type { DataOf } from "../../shared/domain/events/category.ts";
import { requireOwnedBy } from "../../shared/domain/preconditions.ts";
import type { Instant } from "../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type CommandResult, handle } from "../handling/handle.ts";
import { defineClinicOperation, loadClinicObject, loadCommandClinic, loadState, type Operation } from "./operation.ts";

/**
 * Identifies an appointment of a clinic. An appointment of another clinic is refused with `appointment_not_found`.
 */
interface AppointmentReference {
  clinicId: string;
  appointmentId: string;
}

/** Requests an appointment at the clinic's front desk. A repeated request with the same id changes nothing. */
export const requestAppointment = defineClinicOperation(
  appointmentAggregate,
  "appointmentId",
  (
    input: Omit<AppointmentRequest, "applicationId" | "requestHash" | "sandboxGeneration">,
    clinic,
    now,
    { animal, customer }: { animal: Animal | undefined; customer: Customer | undefined },
  ) => {
    refuseSandbox(clinic);
    const { appointmentId, clinicId, branchId, animalId, scheduledAt, durationMinutes, reason, notes } = input;
    // Do not reorder the members: the hash depends on their order.
    const hashedFields = { appointmentId, clinicId, branchId, animalId, scheduledAt, durationMinutes, reason, notes };
    const requestHash = hash("sha256", JSON.stringify(hashedFields));
    const request = { ...hashedFields, applicationId: null, requestHash, sandboxGeneration: 0 };
    return decideRequest(request, { clinic, animal, customer, permittedBranchIds: null, now });
  },
  async (log, { animalId }) => {
    const animal = await loadState(log, animalAggregate, animalId);
    return { animal, customer: await loadState(log, customerAggregate, animal?.customerId ?? null) };
  },
);

function defineOperation<Command extends AppointmentReference, References = undefined>(
  decide: (command: Command, now: number, references: References) => Decision<Appointment, AppointmentEvent>,
  loadReferences?: (log: EventLog, command: Command) => Promise<References>,
): Operation<Command, Appointment> {
  return defineClinicOperation(
    appointmentAggregate,
    "appointmentId",
    (command: Command, clinic, now, references: References) => (state) =>
      decide(command, now, references)(requireOwnedBy(clinic.id, hideBeforeReset(state, clinic), "appointment")),
    loadReferences,
  );
}

/** Returns undefined for an appointment from before the last reset of a sandbox. */
function hideBeforeReset(state: Appointment | undefined, { sandboxGeneration }: Clinic): Appointment | undefined {
  return state?.sandboxGeneration === sandboxGeneration ? state : undefined;
}

export const confirmAppointment = defineOperation(decideConfirm);
export const checkInAppointment = defineOperation(decideCheckIn);
export const putAppointmentInWaiting = defineOperation(decidePutInWaiting);
export const startConsultation = defineOperation(decideStartConsultation);
export const completeAppointment = defineOperation(decideComplete);
export const markNoShow = defineOperation((_, now) => decideMarkNoShow(now));
export const rescheduleAppointment = defineOperation(
  (command: AppointmentReference & { scheduledAt: Instant; durationMinutes?: number }, now) =>
    decideReschedule(command, now),
);
export const releaseResource = defineOperation(({ assignmentId }: AppointmentReference & { assignmentId: string }) =>
  decideRelease(assignmentId),
);

/** Cancels an appointment. If the customer's contact data is erased, a reason is refused, because it is personal data. */
export const cancelAppointment = defineOperation(
  ({ reason }: AppointmentReference & { reason: string | null }, _, customer: Customer | undefined) =>
    decideCancel(reason, customer),
  async (log, { appointmentId, reason }) => {
    const appointment = await loadState(log, appointmentAggregate, reason === null ? null : appointmentId);
    return loadState(log, customerAggregate, appointment?.customerId ?? null);
  },
);

export const allocateResource = defineOperation(
  (command: AppointmentReference & DataOf<AppointmentEvent, "ResourceAllocated">, _, resource: Resource) =>
    decideAllocate(command, resource),
  (log, { resourceId, clinicId }) => loadClinicObject(log, resourceAggregate, resourceId, clinicId, "resource"),
);

/**
 * Imports an appointment and its status from another system. The time of the event is the time at which the appointment
 * reached that status. Partners are not notified.
 *
 * @throws {DomainError} `clinic_not_found`, `clinic_closed`, `clinic_is_a_sandbox`, and what {@link decideImport}
 *   throws
 */
export async function importAppointment(
  log: EventLog,
  input: Omit<AppointmentImport, "requestHash">,
  context: CommandContext,
): Promise<CommandResult<Appointment>> {
  const { appointmentId, clinicId, animalId, customerId, resourceIds } = input;
  const { clinic, clinicContext } = await loadCommandClinic(log, clinicId, context);
  refuseSandbox(clinic);
  const { now } = context;
  const [animal, namedCustomer, ...resources] = await Promise.all([
    loadState(log, animalAggregate, animalId),
    loadState(log, customerAggregate, customerId),
    ...resourceIds.map((id) => loadState(log, resourceAggregate, id)),
  ]);
  const ownerId = customerId === null ? (animal?.customerId ?? null) : null;
  const customer = namedCustomer ?? (await loadState(log, customerAggregate, ownerId));
  const request = { ...input, requestHash: hashImport(input) };
  const decide = restrictToOpenClinic(clinic, decideImport(request, { clinic, animal, customer, resources, now }));
  const importContext = { ...clinicContext, now: deriveOccurredAt(request, now) };
  return handle(log, appointmentAggregate, appointmentId, decide, importContext);
}

/** Hashes the imported data. The order of object members does not affect the hash. */
function hashImport(input: Omit<AppointmentImport, "requestHash">): string {
  const sortedEntries = Object.entries(input).sort(([a], [b]) => (a < b ? -1 : 1));
  return hash("sha256", JSON.stringify(sortedEntries));
}
