import type { Aggregate, Decision } from "../aggregate.ts";
import type { Customer } from "../clinic/customer.ts";
import type { Resource } from "../clinic/resource.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import { type AppointmentEvent, appointmentStreams, MAX_APPOINTMENT_MINUTES } from "../events/appointment.ts";
import type { DataOf } from "../events/category.ts";
import { type Erasure, isErased, refuseTextAboutErased } from "../personal-data/erasure.ts";
import { requireExisting } from "../preconditions.ts";
import { MINUTE_MS } from "../time/local-time.ts";
import type { Instant } from "../time/rfc3339.ts";

export const appointmentStatuses = [
  "requested",
  "confirmed",
  "checked_in",
  "waiting",
  "in_consultation",
  "completed",
  "cancelled",
  "no_show",
] as const;
export type AppointmentStatus = (typeof appointmentStatuses)[number];

/** State of an appointment. */
export interface Appointment extends Omit<DataOf<AppointmentEvent, "AppointmentRequested">, "appointmentId"> {
  id: string;
  status: AppointmentStatus;
  /** True if the data of the appointment itself was erased. False if the data of its customer was erased. */
  isErased: boolean;
  createdAt: Instant;
  updatedAt: Instant;
  assignments: { id: string; resourceId: string; start: Instant; end: Instant; active: boolean }[];
}

/** Status of an appointment after each type of event. */
export const statusAfterEvent = {
  AppointmentRequested: "requested",
  AppointmentConfirmed: "confirmed",
  AppointmentCheckedIn: "checked_in",
  AppointmentPutInWaiting: "waiting",
  ConsultationStarted: "in_consultation",
  AppointmentCompleted: "completed",
  AppointmentCancelled: "cancelled",
  AppointmentMarkedNoShow: "no_show",
} as const satisfies Partial<Record<AppointmentEvent["type"], AppointmentStatus>>;

/** An appointment event with the time at which it occurred. */
export type TimedAppointmentEvent = AppointmentEvent & { metadata: { occurredAt: Instant } };

/** Returns the state after the next event. The state is undefined before the appointment was requested or imported. */
function evolveAppointment(state: Appointment | undefined, event: TimedAppointmentEvent): Appointment | undefined {
  const occurredAt = event.metadata.occurredAt;
  if (event.type === "AppointmentRequested") {
    const { appointmentId: id, ...data } = event.data;
    const timestamps = { createdAt: occurredAt, updatedAt: occurredAt };
    return { id, ...data, isErased: false, status: "requested", ...timestamps, assignments: [] };
  }
  if (event.type === "AppointmentImported") {
    const { appointmentId, requestedAt, statusAt: _, ...data } = event.data;
    const partnerFields = { applicationId: null, sandboxGeneration: 0 };
    const timestamps = { createdAt: requestedAt ?? occurredAt, updatedAt: occurredAt };
    return { id: appointmentId, ...data, isErased: false, ...partnerFields, ...timestamps, assignments: [] };
  }
  if (!state) return undefined;
  const changedState = { ...state, updatedAt: occurredAt };
  switch (event.type) {
    case "AppointmentRescheduled": {
      const { scheduledAt, durationMinutes } = event.data;
      return { ...changedState, scheduledAt, durationMinutes };
    }
    case "ResourceAllocated": {
      const { assignmentId: id, resourceId, allocationStart: start, allocationEnd: end } = event.data;
      const assignment = { id, resourceId, start, end, active: true };
      return { ...changedState, assignments: [...state.assignments, assignment] };
    }
    case "ResourceReleased": {
      const { assignmentId } = event.data;
      const assignments = state.assignments.map((assignment) =>
        assignment.id === assignmentId ? { ...assignment, active: false } : assignment,
      );
      return { ...changedState, assignments };
    }
    case "AppointmentDataErased":
      return { ...changedState, reason: null, notes: null, textHash: null, isErased: true };
    default:
      return { ...changedState, status: statusAfterEvent[event.type] };
  }
}

/** Folds the events of an appointment, in order. */
export function foldAppointment(events: readonly TimedAppointmentEvent[]): Appointment | undefined {
  return events.reduce<Appointment | undefined>(evolveAppointment, undefined);
}

export const appointmentAggregate: Aggregate<typeof appointmentStreams, Appointment> = {
  category: appointmentStreams,
  evolve: evolveAppointment,
  personOf: ({ id, customerId }) =>
    customerId === null ? { type: "appointment", id } : { type: "customer", id: customerId },
};

type AppointmentDecision = Decision<Appointment, AppointmentEvent>;

/** Event type of a status transition. */
export type Transition = Exclude<keyof typeof statusAfterEvent, "AppointmentRequested">;

/**
 * For each transition, the statuses in which it is permitted. In all other statuses, the transition's decider throws
 * `illegal_transition`.
 */
const permittedStatusesByTransition = {
  AppointmentConfirmed: ["requested"],
  AppointmentCheckedIn: ["requested", "confirmed"],
  AppointmentPutInWaiting: ["checked_in"],
  ConsultationStarted: ["checked_in", "waiting"],
  AppointmentCompleted: ["in_consultation"],
  AppointmentCancelled: ["requested", "confirmed", "checked_in", "waiting"],
  AppointmentMarkedNoShow: ["confirmed"],
} as const satisfies Record<Transition, AppointmentStatus[]>;

export const decideConfirm = (): AppointmentDecision => decideTransition("AppointmentConfirmed");
export const decideCheckIn = (): AppointmentDecision => decideTransition("AppointmentCheckedIn");
export const decidePutInWaiting = (): AppointmentDecision => decideTransition("AppointmentPutInWaiting");
export const decideStartConsultation = (): AppointmentDecision => decideTransition("ConsultationStarted");
export const decideComplete = (): AppointmentDecision => decideTransition("AppointmentCompleted");

/**
 * Cancels an appointment and releases its resources.
 *
 * @param customer customer of the appointment; undefined if the appointment has no customer, or if the reason is null
 * @throws {DomainError} `customer_erased` or `appointment_erased` if there is a reason, but the data was erased
 */
export function decideCancel(reason: string | null, customer: Customer | undefined): AppointmentDecision {
  return (state) => {
    const appointment = requireTransition(state, "AppointmentCancelled");
    const { id: appointmentId } = appointment;
    refuseReasonAboutErased(reason, appointment, customer);
    return [{ type: "AppointmentCancelled", data: { appointmentId, reason } }, ...releaseResources(appointment)];
  };
}

/** A reason is personal data, so it is refused if the data of the appointment or its customer was erased. */
function refuseReasonAboutErased(
  reason: string | null,
  appointment: Appointment,
  customer: Customer | undefined,
): void {
  if (reason !== null && customer && isErased(customer)) refuseTextAboutErased("reason", "customer");
  if (reason !== null && appointment.isErased) refuseTextAboutErased("reason", "appointment");
}

/**
 * Records that the customer did not show up, and releases the resources. Throws if the appointment has not started yet.
 *
 * @param now milliseconds since 1970
 */
export function decideMarkNoShow(now: number): AppointmentDecision {
  return (state) => {
    const appointment = requireTransition(state, "AppointmentMarkedNoShow");
    // Partners rehearse in the sandbox, and cannot wait for the appointment.
    const isInSandbox = appointment.sandboxGeneration > 0;
    if (!isInSandbox && now < Date.parse(appointment.scheduledAt)) {
      throw new DomainError("appointment_not_due", "the appointment has not started yet");
    }
    const { id: appointmentId } = appointment;
    return [{ type: "AppointmentMarkedNoShow", data: { appointmentId } }, ...releaseResources(appointment)];
  };
}

export interface AppointmentMove {
  scheduledAt: Instant;
  /** Default: unchanged. */
  durationMinutes?: number | undefined;
  reason: string | null;
}

/**
 * Moves a requested or confirmed appointment to a future time, and releases its resources. Throws in other statuses.
 *
 * @param customer customer of the appointment; undefined if the appointment has no customer, or if the reason is null
 * @param now milliseconds since 1970
 * @throws {DomainError} `customer_erased` or `appointment_erased` if there is a reason, but the data was erased
 */
export function decideReschedule(
  move: AppointmentMove,
  customer: Customer | undefined,
  now: number,
): AppointmentDecision {
  return (state) => {
    const appointment = requireExisting(state, "appointment");
    const { id: appointmentId, status } = appointment;
    const { scheduledAt, durationMinutes = appointment.durationMinutes, reason } = move;
    if (status !== "requested" && status !== "confirmed") refuseTransition(status, "rescheduled");
    if (Date.parse(scheduledAt) <= now) {
      throw new DomainError("time_not_in_future", "the new time must be in the future");
    }
    if (scheduledAt === appointment.scheduledAt && durationMinutes === appointment.durationMinutes) return [];
    refuseReasonAboutErased(reason, appointment, customer);
    const data = { appointmentId, scheduledAt, durationMinutes, reason };
    return [{ type: "AppointmentRescheduled", data }, ...releaseResources(appointment)];
  };
}

function decideTransition(
  type: Exclude<Transition, "AppointmentCancelled" | "AppointmentMarkedNoShow">,
): AppointmentDecision {
  return (state) => [{ type, data: { appointmentId: requireTransition(state, type).id } }];
}

function releaseResources({ id: appointmentId, assignments }: Appointment): AppointmentEvent[] {
  return assignments
    .filter(({ active }) => active)
    .map(({ id: assignmentId }) => ({ type: "ResourceReleased", data: { appointmentId, assignmentId } }));
}

function requireTransition(state: Appointment | undefined, transition: Transition): Appointment {
  const appointment = requireExisting(state, "appointment");
  const permittedStatuses: readonly AppointmentStatus[] = permittedStatusesByTransition[transition];
  if (!permittedStatuses.includes(appointment.status)) refuseTransition(appointment.status, transition);
  return appointment;
}

function refuseTransition(status: AppointmentStatus, transition: string): never {
  throw new DomainError("illegal_transition", `${transition} is not possible in status ${status}`);
}

/** Final statuses. An appointment in a final status cannot be allocated any resources. */
export const FINAL_STATUSES: readonly string[] = ["completed", "cancelled", "no_show"];

/**
 * Allocates a resource of the appointment's branch for a time range. Does not check for overlaps with the allocations
 * of other appointments, because these are in other streams.
 */
export function decideAllocate(
  allocation: { assignmentId: string; allocationStart: Instant; allocationEnd: Instant },
  resource: Resource,
): AppointmentDecision {
  return (state) => {
    const { id: appointmentId, status, branchId, assignments } = requireExisting(state, "appointment");
    const { assignmentId, allocationStart, allocationEnd } = allocation;
    const assignment = { id: assignmentId, resourceId: resource.id, start: allocationStart, end: allocationEnd };
    const existingAssignment = assignments.find(({ id }) => id === assignmentId);
    if (existingAssignment && isEqual(existingAssignment, { ...assignment, active: true })) return [];
    if (resource.branchId !== branchId || !resource.active) {
      throw new DomainError("resource_not_available", "the resource is retired or belongs to another branch");
    }
    if (existingAssignment) throw new DomainError("assignment_exists", "the id already belongs to another assignment");
    if (FINAL_STATUSES.includes(status)) throw new DomainError("appointment_over", `the appointment is ${status}`);
    if (allocationEnd <= allocationStart) {
      throw new DomainError("allocation_empty", "the allocation must end after it starts");
    }
    if (Date.parse(allocationEnd) - Date.parse(allocationStart) > MAX_APPOINTMENT_MINUTES * MINUTE_MS) {
      throw new DomainError(
        "allocation_too_long",
        `the allocation must not be longer than ${MAX_APPOINTMENT_MINUTES} minutes`,
      );
    }
    const hasOverlap = assignments.some(
      ({ active, resourceId, start, end }) =>
        active && resourceId === resource.id && start < allocationEnd && allocationStart < end,
    );
    if (hasOverlap) throw new DomainError("resource_allocated", "the resource is already allocated at that time");
    return [{ type: "ResourceAllocated", data: { appointmentId, ...allocation, resourceId: resource.id } }];
  };
}

/** Releases an allocated resource. Releasing a released resource changes nothing. */
export function decideRelease(assignmentId: string): AppointmentDecision {
  return (state) => {
    const { id: appointmentId, assignments } = requireExisting(state, "appointment");
    const assignment = assignments.find(({ id }) => id === assignmentId);
    if (!assignment) throw new DomainError("assignment_not_found", "the appointment has no such assignment");
    return assignment.active ? [{ type: "ResourceReleased", data: { appointmentId, assignmentId } }] : [];
  };
}

/**
 * Erases the data of an appointment without a customer. Repeating the erasure changes nothing.
 *
 * @throws {DomainError} `appointment_has_customer`
 */
export function decideEraseAppointment(erasure: Erasure): AppointmentDecision {
  return (state) => {
    const appointment = requireExisting(state, "appointment");
    const { id: appointmentId, customerId } = appointment;
    if (customerId !== null) {
      throw new DomainError("appointment_has_customer", `the appointment's data belongs to customer ${customerId}`);
    }
    return appointment.isErased ? [] : [{ type: "AppointmentDataErased", data: { appointmentId, ...erasure } }];
  };
}
