import { type Aggregate, createClinicRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import type { Customer } from "../clinic/customer.ts";
import type { Resource } from "../clinic/resource.ts";
import { DomainError, type ErrorDetail } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import { type AppointmentEvent, appointmentStreams, MAX_ALLOCATION_MINUTES } from "../events/appointment.ts";
import type { DataOf } from "../events/category.ts";
import { isErased, refuseTextAboutErased } from "../personal-data/erasure.ts";
import { requireExisting } from "../preconditions.ts";
import { MINUTE_MS } from "../time/local-time.ts";
import { type Instant, toInstant, toInstantInRange } from "../time/rfc3339.ts";

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
} as const satisfies Partial<Record<AppointmentEvent["type"], string>>;

export const appointmentStatuses = Object.values(statusAfterEvent);
export type AppointmentStatus = (typeof appointmentStatuses)[number];

export interface Appointment
  extends Omit<DataOf<AppointmentEvent, "AppointmentRequested">, "appointmentId" | "place" | "isConfirmed"> {
  id: string;
  status: AppointmentStatus;
  /** True after an erasure of this appointment, but not after an erasure of its customer. */
  isErased: boolean;
  createdAt: Instant;
  updatedAt: Instant;
  assignments: Assignment[];
}

interface Assignment {
  id: string;
  resourceId: string;
  start: Instant;
  end: Instant;
  active: boolean;
}

/** Functions that set the status and `updatedAt`, by type of event. */
const statusChanges = Object.fromEntries(
  Object.entries(statusAfterEvent).map(([type, status]) => [
    type,
    (_: unknown, __: unknown, updatedAt: Instant) => ({ status, updatedAt }),
  ]),
) as Record<Transition, (data: unknown, state: unknown, updatedAt: Instant) => Partial<Appointment>>;

export const appointmentAggregate: Aggregate<typeof appointmentStreams, Appointment> = defineAggregate(
  appointmentStreams,
  {
    AppointmentRequested({ appointmentId: id, place, isConfirmed, ...data }, _, at) {
      const status = isConfirmed ? "confirmed" : "requested";
      const assignments = place ? [toAssignment(place, data.scheduledAt, getEnd(data))] : [];
      return { id, ...data, isErased: false, status, createdAt: at, updatedAt: at, assignments };
    },
    AppointmentImported({ appointmentId: id, requestedAt, statusAt: _, ...data }, __, updatedAt) {
      const partnerFields = { applicationId: null, sandboxGeneration: 0 };
      const timestamps = { createdAt: requestedAt ?? updatedAt, updatedAt };
      return { id, ...data, isErased: false, ...partnerFields, ...timestamps, assignments: [] };
    },
  },
  {
    ...statusChanges,
    AppointmentRescheduled: ({ scheduledAt, durationMinutes }, _, updatedAt) => ({
      ...{ scheduledAt, durationMinutes, updatedAt },
    }),
    ResourceAllocated(allocation, { assignments }, updatedAt) {
      const assignment = toAssignment(allocation, allocation.allocationStart, allocation.allocationEnd);
      return { assignments: [...assignments.filter(({ id }) => id !== assignment.id), assignment], updatedAt };
    },
    ResourceReleased: ({ assignmentId }, { assignments }, updatedAt) => ({
      assignments: assignments.map((item) => (item.id === assignmentId ? { ...item, active: false } : item)),
      updatedAt,
    }),
    ReservationAbandoned: () => ({}),
    AppointmentDataErased: (_, __, updatedAt) => ({
      ...{ reason: null, notes: null, textHash: null, isErased: true, updatedAt },
    }),
  },
  {
    personOf: ({ id, customerId }) =>
      customerId === null ? { type: "appointment", id } : { type: "customer", id: customerId },
  },
);

function toAssignment(
  { assignmentId: id, resourceId }: { assignmentId: string; resourceId: string },
  start: Instant,
  end: Instant,
): Assignment {
  return { id, resourceId, start, end, active: true };
}

export function getEnd({
  scheduledAt,
  durationMinutes,
}: Pick<Appointment, "scheduledAt" | "durationMinutes">): Instant {
  return toInstant(Date.parse(scheduledAt) + durationMinutes * MINUTE_MS);
}

/** Thrown if an appointment request, move or import is invalid. Lists all problems. */
export class InvalidAppointmentError extends DomainError {
  declare readonly details: ErrorDetail[];

  constructor(details: ErrorDetail[]) {
    super("validation_failed", details.map(({ path, message }) => `${path} ${message}`).join("; "), details);
  }
}

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

/**
 * Changes the status of an appointment. A cancellation and a no-show also release its resources. A no-show is possible
 * only after the start of the appointment, except for a partner's appointment in a sandbox.
 *
 * @param now milliseconds since 1970
 * @throws {DomainError} `illegal_transition`, `appointment_not_due`
 */
export function changeStatus(type: Transition, now: number): AppointmentDecision {
  if (type === "AppointmentCancelled") return cancelAppointment(null, undefined);
  return (state) => {
    const appointment = requireTransition(state, type);
    const { id: appointmentId, sandboxGeneration, scheduledAt } = appointment;
    if (type !== "AppointmentMarkedNoShow") return [{ type, data: { appointmentId } }];
    // Partners rehearse in the sandbox, and cannot wait for the appointment.
    if (sandboxGeneration === 0 && now < Date.parse(scheduledAt))
      throw new DomainError("appointment_not_due", "the appointment has not started yet");
    return [...releaseResources(appointment), { type, data: { appointmentId } }];
  };
}

/**
 * Cancels an appointment and releases its resources.
 *
 * @param customer customer of the appointment; undefined if the appointment has no customer, or if the reason is null
 * @throws {DomainError} `customer_erased` or `appointment_erased` if there is a reason, but the data was erased
 */
export function cancelAppointment(reason: string | null, customer: Customer | undefined): AppointmentDecision {
  return (state) => {
    const appointment = requireTransition(state, "AppointmentCancelled");
    const { id: appointmentId } = appointment;
    refuseReasonAboutErased(reason, appointment, customer);
    return [...releaseResources(appointment), { type: "AppointmentCancelled", data: { appointmentId, reason } }];
  };
}

/** Refuses a reason, which is personal data, if the data of the appointment or its customer was erased. */
function refuseReasonAboutErased(
  reason: string | null,
  appointment: Appointment,
  customer: Customer | undefined,
): void {
  if (reason !== null && customer && isErased(customer)) refuseTextAboutErased("reason", "customer");
  if (reason !== null && appointment.isErased) refuseTextAboutErased("reason", "appointment");
}

export const NOT_IN_FUTURE: ErrorDetail = { path: "scheduledAt", message: "must be in the future" };

interface AppointmentMove {
  scheduledAt: Instant;
  /** Default: unchanged. */
  durationMinutes?: number | undefined;
  reason: string | null;
}

/**
 * Moves a requested or confirmed appointment to a future time, and its allocations with it.
 *
 * @param customer customer of the appointment; undefined if the appointment has no customer, or if the reason is null
 * @param now milliseconds since 1970
 * @throws {InvalidAppointmentError} if the new time is not in the future
 * @throws {DomainError} `illegal_transition` in other statuses
 * @throws {DomainError} `customer_erased` or `appointment_erased` if there is a reason, but the data was erased
 */
export function rescheduleAppointment(
  move: AppointmentMove,
  customer: Customer | undefined,
  now: number,
): AppointmentDecision {
  return (state) => {
    const appointment = requireExisting(state, "appointment");
    const { id: appointmentId, status } = appointment;
    const { scheduledAt, durationMinutes = appointment.durationMinutes, reason } = move;
    if (status !== "requested" && status !== "confirmed") refuseTransition(status, "rescheduled");
    if (Date.parse(scheduledAt) <= now) throw new InvalidAppointmentError([NOT_IN_FUTURE]);
    if (scheduledAt === appointment.scheduledAt && durationMinutes === appointment.durationMinutes) return [];
    refuseReasonAboutErased(reason, appointment, customer);
    const data = { appointmentId, scheduledAt, durationMinutes, reason };
    return [...moveResources(appointment, data), { type: "AppointmentRescheduled", data }];
  };
}

/**
 * Creates the events that release all resources. They must precede the cancellation or no-show. The webhook of that
 * change then shows the resources after the release.
 */
function releaseResources({ assignments, ...appointment }: Appointment): AppointmentEvent[] {
  return assignments.filter(({ active }) => active).map(({ id }) => createRelease(appointment.id, id));
}

function createRelease(appointmentId: string, assignmentId: string): AppointmentEvent {
  return { type: "ResourceReleased", data: { appointmentId, assignmentId, isConsequence: true } };
}

/**
 * Shifts each allocation with the appointment: its start as far as the appointment's start, and its end as far as the
 * appointment's end. Releases an allocation whose new end would not be after its new start.
 */
function moveResources(
  { id: appointmentId, assignments, ...appointment }: Appointment,
  move: Pick<Appointment, "scheduledAt" | "durationMinutes">,
): AppointmentEvent[] {
  const toDifference = (before: Instant, after: Instant) => Date.parse(after) - Date.parse(before);
  const startDifference = toDifference(appointment.scheduledAt, move.scheduledAt);
  const endDifference = toDifference(getEnd(appointment), getEnd(move));
  return assignments
    .filter(({ active }) => active)
    .map(({ id: assignmentId, resourceId, start, end }) => {
      const allocationStart = toInstantInRange(Date.parse(start) + startDifference);
      const allocationEnd = toInstantInRange(Date.parse(end) + endDifference);
      if (!allocationStart || !allocationEnd || allocationEnd <= allocationStart)
        return createRelease(appointmentId, assignmentId);
      const data = { appointmentId, assignmentId, resourceId, allocationStart, allocationEnd };
      return { type: "ResourceAllocated", data: { ...data, isConsequence: true } };
    });
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
 * Allocates a resource of the appointment's branch for a time range. Does not check whether the resource has a free
 * place. The reservation before the append checks that; see `resourceDayStreams`.
 */
export function allocateResource(
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
    if (Date.parse(allocationEnd) - Date.parse(allocationStart) > MAX_ALLOCATION_MINUTES * MINUTE_MS) {
      throw new DomainError(
        "allocation_too_long",
        `the allocation must not be longer than ${MAX_ALLOCATION_MINUTES} minutes`,
      );
    }
    const hasOverlap = assignments.some(
      ({ active, resourceId, start, end }) =>
        active && resourceId === resource.id && start < allocationEnd && allocationStart < end,
    );
    if (hasOverlap) throw new DomainError("resource_allocated", "the resource is already allocated at that time");
    const data = { appointmentId, assignmentId, resourceId: resource.id, allocationStart, allocationEnd };
    return [{ type: "ResourceAllocated", data }];
  };
}

/** Releases an allocated resource. Releasing a released resource changes nothing. */
export function releaseResource(assignmentId: string): AppointmentDecision {
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
export const eraseAppointment = createClinicRecorder(appointmentAggregate, "appointment")(
  "AppointmentDataErased",
  ({ customerId, isErased }) => {
    if (customerId === null) return !isErased;
    throw new DomainError("appointment_has_customer", `the appointment's data belongs to customer ${customerId}`);
  },
);
