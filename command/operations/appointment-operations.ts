import { hash } from "node:crypto";
import type { Decision } from "../../shared/domain/aggregate.ts";
import {
  type Appointment,
  type AppointmentMove,
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
import { type AppointmentEvent, requestDefaults } from "../../shared/domain/events/appointment.ts";
import type { DataOf } from "../../shared/domain/events/category.ts";
import { requireOwnedBy } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type CommandResult, handle } from "../handling/handle.ts";
import { defineClinicOperation, loadClinicObject, loadCommandClinic, loadState, type Operation } from "./operation.ts";

/** Identifies an appointment of a clinic. An appointment of another clinic is refused with `appointment_not_found`. */
interface AppointmentReference {
  clinicId: string;
  appointmentId: string;
}

/** Details that are absent have the values of `requestDefaults`. */
type FrontDeskRequest = Pick<
  AppointmentRequest,
  "appointmentId" | "clinicId" | "branchId" | "animalId" | "scheduledAt"
> &
  Partial<Omit<AppointmentRequest, "applicationId" | "requestHash" | "textHash" | "sandboxGeneration">>;

/** Requests an appointment at the clinic's front desk. A repeated request with the same id changes nothing. */
export const requestAppointment = defineClinicOperation(
  appointmentAggregate,
  "appointmentId",
  (
    input: FrontDeskRequest,
    clinic,
    now,
    { animal, customer }: { animal: Animal | undefined; customer: Customer | undefined },
  ) => {
    refuseSandbox(clinic);
    const request = { ...requestDefaults, ...input, ...hashRequest(input) };
    const animalAccess = "appointments_write";
    return decideRequest(request, { clinic, animal, customer, animalAccess, permittedBranchIds: null, now });
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

/** Decider of each transition that needs no further data than the time. */
const decidersByStatus = {
  confirmed: decideConfirm,
  checked_in: decideCheckIn,
  waiting: decidePutInWaiting,
  in_consultation: decideStartConsultation,
  completed: decideComplete,
  cancelled: () => decideCancel(null, undefined),
  no_show: decideMarkNoShow,
} as const;

/** Changes the status of an appointment. If the appointment already has the status, nothing changes. */
export const changeAppointmentStatus = defineOperation(
  ({ to }: AppointmentReference & { to: keyof typeof decidersByStatus }, now) =>
    (state) =>
      state?.status === to ? [] : decidersByStatus[to](now)(state),
);
export const releaseResource = defineOperation(({ assignmentId }: AppointmentReference & { assignmentId: string }) =>
  decideRelease(assignmentId),
);

/** Loads the customer of an appointment if there is a reason, which is personal data. */
async function loadReasonedCustomer(
  log: EventLog,
  { appointmentId, reason }: AppointmentReference & { reason: string | null },
): Promise<Customer | undefined> {
  const appointment = await loadState(log, appointmentAggregate, reason === null ? null : appointmentId);
  return loadState(log, customerAggregate, appointment?.customerId ?? null);
}

export const cancelAppointment = defineOperation(
  ({ reason }: AppointmentReference & { reason: string | null }, _, customer: Customer | undefined) =>
    decideCancel(reason, customer),
  loadReasonedCustomer,
);

export const rescheduleAppointment = defineOperation(
  (command: AppointmentReference & AppointmentMove, now, customer: Customer | undefined) =>
    decideReschedule(command, customer, now),
  loadReasonedCustomer,
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
  input: ImportInput,
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
  const request = { ...input, ...hashImport(input) };
  const decide = restrictToOpenClinic(clinic, decideImport(request, { clinic, animal, customer, resources, now }));
  const importContext = { ...clinicContext, now: deriveOccurredAt(request, now) };
  return handle(log, appointmentAggregate, appointmentId, decide, importContext);
}

type ImportInput = Omit<AppointmentImport, "requestHash" | "textHash">;
type RequestHashes = Pick<AppointmentImport, "requestHash" | "textHash">;

/**
 * Hashes a request of the front desk. Fields of later releases count only if they have a value, so a repeated request
 * keeps the hash that an earlier release recorded.
 */
function hashRequest(input: FrontDeskRequest): RequestHashes {
  const { appointmentId, clinicId, branchId, animalId, scheduledAt, ...details } = input;
  const { durationMinutes = requestDefaults.durationMinutes, reason = null, notes = null, ...later } = details;
  // Do not reorder the members: the hash depends on their order.
  const hashedFields = { appointmentId, clinicId, branchId, animalId, scheduledAt, durationMinutes };
  const requestHash = hashJson({ ...hashedFields, ...Object.fromEntries(listSortedValues(later)) });
  return { requestHash, textHash: hashJson([reason, notes]) };
}

/** Hashes the imported data, independent of the order of its members. Later fields count only if they have a value. */
function hashImport(input: ImportInput): RequestHashes {
  const { animalId, customerId, reason, notes, requestedAt, statusAt, ...otherFields } = input;
  const nullableFields = { animalId, customerId, requestedAt, statusAt };
  const entries = [...Object.entries(nullableFields), ...listSortedValues(otherFields)];
  return { requestHash: hashJson(sortByName(entries)), textHash: hashJson([reason, notes]) };
}

function hashJson(value: unknown): string {
  return hash("sha256", JSON.stringify(value));
}

function listSortedValues(fields: Record<string, unknown>): [string, unknown][] {
  return sortByName(Object.entries(fields).filter(([, value]) => value !== null));
}

function sortByName(entries: [string, unknown][]): [string, unknown][] {
  return entries.sort(([a], [b]) => (a < b ? -1 : 1));
}
