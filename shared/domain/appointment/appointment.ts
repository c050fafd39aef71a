import type { Aggregate, Decision } from "../aggregate.ts";
import type { Resource } from "../clinic/resource.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import { type AppointmentEvent, appointmentCategory } from "../events/appointment.ts";
import { requireExisting } from "../preconditions.ts";
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

/** An appointment as its events tell it. */
export interface Appointment {
  id: string;
  clinicId: string;
  branchId: string;
  animalId: string | null;
  customerId: string | null;
  scheduledAt: Instant;
  durationMinutes: number;
  status: AppointmentStatus;
  reason: string | null;
  notes: string | null;
  applicationId: string | null;
  requestHash: string | null;
  /** Of the application's sandbox that it belongs to; 0 outside of sandboxes. */
  sandboxGeneration: number;
  createdAt: Instant;
  updatedAt: Instant;
  assignments: { id: string; resourceId: string; start: Instant; end: Instant; active: boolean }[];
}

/** The status that each event of the appointment's life leads to. */
export const statusAfter = {
  AppointmentRequested: "requested",
  AppointmentConfirmed: "confirmed",
  AppointmentCheckedIn: "checked_in",
  AppointmentPutInWaiting: "waiting",
  ConsultationStarted: "in_consultation",
  AppointmentCompleted: "completed",
  AppointmentCancelled: "cancelled",
  AppointmentMarkedNoShow: "no_show",
} as const satisfies Partial<Record<AppointmentEvent["type"], AppointmentStatus>>;

/** An appointment's event and when it happened. */
export type HappenedEvent = AppointmentEvent & { metadata: { occurredAt: Instant } };

/**
 * The state after one more event. Undefined stands for no appointment yet. An appointment begins with its request or its
 * import; any other event leaves it undefined.
 */
export function evolveAppointment(
  state: Appointment | undefined,
  event: HappenedEvent,
): Appointment | undefined {
  const at = event.metadata.occurredAt;
  if (event.type === "AppointmentRequested") {
    const { appointmentId, ...data } = event.data;
    return { id: appointmentId, ...data, status: "requested", createdAt: at, updatedAt: at, assignments: [] };
  }
  if (event.type === "AppointmentImported") {
    const { appointmentId, requestedAt, statusAt: _, ...data } = event.data;
    const ofNoPartner = { applicationId: null, sandboxGeneration: 0 };
    const times = { createdAt: requestedAt ?? at, updatedAt: at };
    return { id: appointmentId, ...data, ...ofNoPartner, ...times, assignments: [] };
  }
  if (!state) return undefined;
  const changed = { ...state, updatedAt: at };
  switch (event.type) {
    case "AppointmentRescheduled": {
      const { scheduledAt, durationMinutes } = event.data;
      return { ...changed, scheduledAt, durationMinutes };
    }
    case "ResourceAllocated": {
      const { assignmentId, resourceId, allocationStart, allocationEnd } = event.data;
      const added = {
        id: assignmentId,
        resourceId,
        start: allocationStart,
        end: allocationEnd,
        active: true,
      };
      return { ...changed, assignments: [...state.assignments, added] };
    }
    case "ResourceReleased": {
      const { assignmentId } = event.data;
      const assignments = state.assignments.map((assignment) =>
        assignment.id === assignmentId ? { ...assignment, active: false } : assignment,
      );
      return { ...changed, assignments };
    }
    default:
      return { ...changed, status: statusAfter[event.type] };
  }
}

/** Folds an appointment's events, in order. */
export function foldAppointment(events: readonly HappenedEvent[]): Appointment | undefined {
  return events.reduce<Appointment | undefined>(evolveAppointment, undefined);
}

export const appointmentAggregate: Aggregate<typeof appointmentCategory, Appointment> = {
  category: appointmentCategory,
  evolve: evolveAppointment,
};

type AppointmentDecision = Decision<Appointment, AppointmentEvent>;

type Move = Exclude<keyof typeof statusAfter, "AppointmentRequested">;

/** From where each move of the front desk is legal: the whole lifecycle. */
const legalFrom = {
  AppointmentConfirmed: ["requested"],
  AppointmentCheckedIn: ["requested", "confirmed"],
  AppointmentPutInWaiting: ["checked_in"],
  ConsultationStarted: ["checked_in", "waiting"],
  AppointmentCompleted: ["in_consultation"],
  AppointmentCancelled: ["requested", "confirmed", "checked_in", "waiting"],
  AppointmentMarkedNoShow: ["confirmed"],
} as const satisfies Record<Move, AppointmentStatus[]>;

/** What may be decided about an appointment in its life. Each refuses with {@link DomainError}. */

export const decideConfirm = (): AppointmentDecision => plainMove("AppointmentConfirmed");
export const decideCheckIn = (): AppointmentDecision => plainMove("AppointmentCheckedIn");
export const decidePutInWaiting = (): AppointmentDecision => plainMove("AppointmentPutInWaiting");
export const decideStartConsultation = (): AppointmentDecision => plainMove("ConsultationStarted");
export const decideComplete = (): AppointmentDecision => plainMove("AppointmentCompleted");

/** What was allocated to it is free again. */
export function decideCancel(reason: string | null): AppointmentDecision {
  return (state) => {
    const appointment = movable(state, "AppointmentCancelled");
    const { id: appointmentId } = appointment;
    return [{ type: "AppointmentCancelled", data: { appointmentId, reason } }, ...releaseAll(appointment)];
  };
}

/** Not before its time. What was allocated to it is free again. */
export function decideMarkNoShow(now: number): AppointmentDecision {
  return (state) => {
    const appointment = movable(state, "AppointmentMarkedNoShow");
    if (now < Date.parse(appointment.scheduledAt)) {
      throw new DomainError("appointment_not_due", "the appointment's time has not come");
    }
    const { id: appointmentId } = appointment;
    return [{ type: "AppointmentMarkedNoShow", data: { appointmentId } }, ...releaseAll(appointment)];
  };
}

/** Before check-in, to a time in the future. Allocations were for the former time, and are free again. */
export function decideReschedule(
  to: { scheduledAt: Instant; durationMinutes?: number | undefined },
  now: number,
): AppointmentDecision {
  return (state) => {
    const appointment = requireExisting(state, "appointment");
    const { id: appointmentId, status, scheduledAt } = appointment;
    if (status !== "requested" && status !== "confirmed") throw illegal(status, "rescheduled");
    if (Date.parse(to.scheduledAt) <= now) {
      throw new DomainError("time_not_in_future", "the new time must be in the future");
    }
    const durationMinutes = to.durationMinutes ?? appointment.durationMinutes;
    if (to.scheduledAt === scheduledAt && durationMinutes === appointment.durationMinutes) return [];
    const data = { appointmentId, scheduledAt: to.scheduledAt, durationMinutes };
    return [{ type: "AppointmentRescheduled", data }, ...releaseAll(appointment)];
  };
}

function plainMove(
  type: Exclude<Move, "AppointmentCancelled" | "AppointmentMarkedNoShow">,
): AppointmentDecision {
  return (state) => [{ type, data: { appointmentId: movable(state, type).id } }];
}

function releaseAll({ id: appointmentId, assignments }: Appointment): AppointmentEvent[] {
  return assignments
    .filter(({ active }) => active)
    .map(({ id: assignmentId }) => ({ type: "ResourceReleased", data: { appointmentId, assignmentId } }));
}

function movable(state: Appointment | undefined, move: Move): Appointment {
  const appointment = requireExisting(state, "appointment");
  const from: readonly AppointmentStatus[] = legalFrom[move];
  if (!from.includes(appointment.status)) throw illegal(appointment.status, move);
  return appointment;
}

function illegal(status: AppointmentStatus, move: string): DomainError {
  return new DomainError("illegal_transition", `an appointment that is ${status} has no move ${move}`);
}

/** Statuses in which an appointment has no more use for resources. */
const OVER: readonly string[] = ["completed", "cancelled", "no_show"];

/**
 * Allocates a resource of the appointment's branch for a time. Whether other appointments leave room on the resource
 * is the scheduler's business: it is not to be known from this stream.
 */
export function decideAllocate(
  asked: { assignmentId: string; allocationStart: Instant; allocationEnd: Instant },
  resource: Resource,
): AppointmentDecision {
  return (state) => {
    const { id: appointmentId, status, branchId, assignments } = requireExisting(state, "appointment");
    const { assignmentId, allocationStart, allocationEnd } = asked;
    const wanted = { id: assignmentId, resourceId: resource.id, start: allocationStart, end: allocationEnd };
    const same = assignments.find(({ id }) => id === assignmentId);
    if (same && isEqual(same, { ...wanted, active: true })) return [];
    if (resource.branchId !== branchId || !resource.active) {
      throw new DomainError("resource_not_available", "the resource is of another branch, or retired");
    }
    if (same) throw new DomainError("assignment_exists", "the id belongs to another assignment already");
    if (OVER.includes(status)) throw new DomainError("appointment_over", `the appointment is ${status}`);
    if (allocationEnd <= allocationStart) {
      throw new DomainError("allocation_empty", "an allocation ends after it starts");
    }
    const overlaps = assignments.some(
      ({ active, resourceId, start, end }) =>
        active && resourceId === resource.id && start < allocationEnd && allocationStart < end,
    );
    if (overlaps)
      throw new DomainError("resource_allocated", "the resource is allocated at that time already");
    return [{ type: "ResourceAllocated", data: { appointmentId, ...asked, resourceId: resource.id } }];
  };
}

/** Gives a resource free again; twice is once. */
export function decideRelease(assignmentId: string): AppointmentDecision {
  return (state) => {
    const { id: appointmentId, assignments } = requireExisting(state, "appointment");
    const assignment = assignments.find(({ id }) => id === assignmentId);
    if (!assignment) throw new DomainError("assignment_not_found", "the appointment has no such assignment");
    return assignment.active ? [{ type: "ResourceReleased", data: { appointmentId, assignmentId } }] : [];
  };
}
