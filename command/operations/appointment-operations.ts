import { hash } from "node:crypto";
import { z } from "zod";
import type { Decision } from "../../shared/domain/aggregate.ts";
import * as appointments from "../../shared/domain/appointment/appointment.ts";
import * as imports from "../../shared/domain/appointment/import.ts";
import * as requests from "../../shared/domain/appointment/request.ts";
import { animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { type Clinic, refuseSandbox } from "../../shared/domain/clinic/clinic.ts";
import { type Customer, customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { resourceAggregate } from "../../shared/domain/clinic/resource.ts";
import {
  type AppointmentEvent,
  appointmentStreams,
  detailDefaults,
  requestDefaults,
} from "../../shared/domain/events/appointment.ts";
import { uuid } from "../../shared/domain/events/fields.ts";
import { requireOwnedBy } from "../../shared/domain/preconditions.ts";
import { defineCommand, defineTransitions } from "./define-command.ts";
import { defineClinicOperation, type References } from "./operation.ts";

/** Identifies an appointment of a clinic. An appointment of another clinic is refused with `appointment_not_found`. */
interface AppointmentReference {
  clinicId: string;
  appointmentId: string;
}

const { AppointmentRequested, AppointmentImported, AppointmentConfirmed, ...events } = appointmentStreams.events;
const permission = "manage_schedule";

/** Option of commands that reserve places: if true, the command may overbook a resource. */
export const overbook = z
  .boolean()
  .default(false)
  .describe("exceed the capacity of the resource, which the log records");

/** Requests an appointment at the clinic's front desk. A repeated request with the same id changes nothing. */
export const requestAppointment = defineCommand("appointment request", appointments.appointmentAggregate, {
  summary: "Requests an appointment at the front desk.",
  input: AppointmentRequested.omit({
    customerId: true,
    applicationId: true,
    requestHash: true,
    textHash: true,
    sandboxGeneration: true,
    place: true,
    isConfirmed: true,
  }).extend({ durationMinutes: AppointmentRequested.shape.durationMinutes.default(detailDefaults.durationMinutes) }),
  creates: "appointmentId",
  permission,
  async refers({ animalId }, { find }) {
    const animal = await find(animalAggregate, animalId);
    return { animal, customer: await find(customerAggregate, animal?.customerId) };
  },
  decide(input, clinic, now, references) {
    refuseSandbox(clinic);
    const request = { ...requestDefaults, ...input, ...hashInput(input) };
    const animalAccess = "appointments_write";
    return requests.requestAppointment(request, { clinic, ...references, animalAccess, permittedBranchIds: null, now });
  },
});

/**
 * Imports an appointment and its status from another system. The time of the event is when the appointment reached this
 * status; see {@link imports.deriveOccurredAt}. Partners are not notified.
 */
export const importAppointment = defineCommand("appointment import", appointments.appointmentAggregate, {
  summary: "Imports an appointment from another system with its status. Partners are not notified.",
  input: AppointmentImported.omit({ requestHash: true, textHash: true }).extend({
    durationMinutes: AppointmentImported.shape.durationMinutes.default(detailDefaults.durationMinutes),
    customerId: uuid.nullable().describe("id of the customer; default: the owner of the animal"),
    resourceIds: z.array(uuid).max(20).default([]).describe("ids of the allocated resources of the branch"),
    resourcesUntil: events.ResourceAllocated.shape.allocationEnd
      .nullable()
      .describe("end of the allocations; default: end of the appointment"),
  }),
  creates: "appointmentId",
  permission: "operator",
  async refers({ animalId, customerId, resourceIds }, { find }) {
    const [animal, namedCustomer, ...resources] = await Promise.all([
      find(animalAggregate, animalId),
      find(customerAggregate, customerId),
      ...resourceIds.map((id) => find(resourceAggregate, id)),
    ]);
    const ownerId = customerId === null ? animal?.customerId : null;
    return { animal, resources, customer: namedCustomer ?? (await find(customerAggregate, ownerId)) };
  },
  decide(input, clinic, now, references) {
    refuseSandbox(clinic);
    return imports.importAppointment({ ...input, ...hashInput(input) }, { clinic, ...references, now });
  },
  occurredAt: imports.deriveOccurredAt,
  // An import describes what is agreed already, so it is never refused for lack of a place.
  overbooks: () => true,
  example: { scheduledAt: "2024-03-01T09:00:00+01:00", status: "completed" },
});

/**
 * Makes a decision refuse appointments of other clinics. In a sandbox, also refuses appointments from before the last
 * reset.
 */
function requireOwn(decide: Decision<appointments.Appointment, AppointmentEvent>, { id, sandboxGeneration }: Clinic) {
  return (state: appointments.Appointment | undefined) => {
    const current = state?.sandboxGeneration === sandboxGeneration ? state : undefined;
    return decide(requireOwnedBy(id, current, "appointment"));
  };
}

const transition = (type: appointments.Transition) => (_: unknown, clinic: Clinic, now: number) =>
  requireOwn(appointments.changeStatus(type, now), clinic);

export const [
  confirmAppointment,
  checkInAppointment,
  putAppointmentInWaiting,
  startConsultation,
  completeAppointment,
  markNoShow,
] = defineTransitions("appointment", appointments.appointmentAggregate, { input: AppointmentConfirmed, permission }, [
  ["confirm", "Confirms a requested appointment.", transition("AppointmentConfirmed")],
  ["check-in", "Records that the animal of an appointment has arrived.", transition("AppointmentCheckedIn")],
  ["wait", "Moves a checked-in appointment to the waiting room.", transition("AppointmentPutInWaiting")],
  ["start", "Starts the consultation of an appointment.", transition("ConsultationStarted")],
  ["complete", "Completes the consultation of an appointment.", transition("AppointmentCompleted")],
  ["no-show", "Records that nobody came. The start time must have passed.", transition("AppointmentMarkedNoShow")],
]);

/** Changes the status of an appointment. If the appointment already has the status, nothing changes. */
export const changeAppointmentStatus = defineClinicOperation(appointments.appointmentAggregate, {
  decide(
    { to }: AppointmentReference & { to: (typeof appointments.statusAfterEvent)[appointments.Transition] },
    clinic,
    now,
  ) {
    const type = (Object.keys(appointments.statusAfterEvent) as appointments.Transition[]).find(
      (key) => appointments.statusAfterEvent[key] === to,
    );
    return requireOwn(
      (state) => (state?.status === to ? [] : appointments.changeStatus(type as appointments.Transition, now)(state)),
      clinic,
    );
  },
});

/** Loads the appointment's customer if a reason is given, because a reason is refused if the customer is erased. */
async function loadReasonedCustomer(
  { appointmentId, reason }: { appointmentId: string; reason: string | null },
  { find }: References,
): Promise<Customer | undefined> {
  const appointment = reason === null ? undefined : await find(appointments.appointmentAggregate, appointmentId);
  return find(customerAggregate, appointment?.customerId);
}

export const cancelAppointment = defineCommand("appointment cancel", appointments.appointmentAggregate, {
  summary: "Cancels an appointment whose consultation has not started.",
  input: events.AppointmentCancelled,
  permission,
  refers: loadReasonedCustomer,
  decide: ({ reason }, clinic, _, customer) => requireOwn(appointments.cancelAppointment(reason, customer), clinic),
  example: { reason: "Cancelled by the owner" },
});

export const rescheduleAppointment = defineCommand("appointment reschedule", appointments.appointmentAggregate, {
  summary: "Moves an appointment to another time. The animal must not be checked in yet.",
  input: events.AppointmentRescheduled.extend({
    durationMinutes: AppointmentRequested.shape.durationMinutes
      .optional()
      .describe("duration in minutes; default: unchanged"),
    overbook,
  }),
  permission,
  overbooks: (values) => values.overbook,
  refers: loadReasonedCustomer,
  decide: (move, clinic, now, customer) => requireOwn(appointments.rescheduleAppointment(move, customer, now), clinic),
  example: { scheduledAt: "2027-03-02T10:00:00+01:00", reason: "The veterinarian is ill" },
});

export const allocateResource = defineCommand("appointment allocate", appointments.appointmentAggregate, {
  summary: "Allocates a resource of the branch to an appointment.",
  input: events.ResourceAllocated.omit({ reservationId: true, isConsequence: true }).extend({ overbook }),
  creates: "assignmentId",
  permission,
  overbooks: (values) => values.overbook,
  refers: ({ resourceId }, { require }) => require(resourceAggregate, resourceId),
  decide: ({ assignmentId, allocationStart, allocationEnd }, clinic, _, resource) =>
    requireOwn(appointments.allocateResource({ assignmentId, allocationStart, allocationEnd }, resource), clinic),
});

export const releaseResource = defineCommand("appointment release", appointments.appointmentAggregate, {
  summary: "Releases a resource that is allocated to an appointment.",
  input: events.ResourceReleased.omit({ isConsequence: true }),
  permission,
  decide: ({ assignmentId }, clinic) => requireOwn(appointments.releaseResource(assignmentId), clinic),
});

/**
 * Hashes a request or an import with SHA-256 (hex). `textHash` covers the reason and the notes, `requestHash` all other
 * fields. Neither depends on the order of fields. `requestHash` ignores null fields, so a repeated request keeps its
 * hash in later releases with more fields.
 */
export function hashInput({ reason, notes, ...fields }: { reason: string | null; notes: string | null }) {
  const entries = Object.entries(fields).filter(([, value]) => value !== null);
  return { requestHash: hashJson(entries.sort(([a], [b]) => (a < b ? -1 : 1))), textHash: hashJson([reason, notes]) };
}

function hashJson(value: unknown): string {
  return hash("sha256", JSON.stringify(value));
}
