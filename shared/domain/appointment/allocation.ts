import type { Resource } from "../clinic/resource.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import type { AppointmentEvent } from "../events/appointment.ts";
import type { Instant } from "../time/rfc3339.ts";
import type { Appointment } from "./appointment.ts";

type Decision = (state: Appointment | undefined) => AppointmentEvent[];

/** Statuses in which an appointment has no more use for resources. */
const OVER: readonly string[] = ["completed", "cancelled", "no_show"];

/**
 * Allocates a resource of the appointment's branch for a time. Whether other appointments leave room on the resource
 * is the scheduler's business: it is not to be known from this stream.
 */
export function decideAllocate(
  asked: { assignmentId: string; allocationStart: Instant; allocationEnd: Instant },
  resource: Resource,
): Decision {
  return (state) => {
    const { id: appointmentId, status, branchId, assignments } = known(state);
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
export function decideRelease(assignmentId: string): Decision {
  return (state) => {
    const { id: appointmentId, assignments } = known(state);
    const assignment = assignments.find(({ id }) => id === assignmentId);
    if (!assignment) throw new DomainError("assignment_not_found", "the appointment has no such assignment");
    return assignment.active ? [{ type: "ResourceReleased", data: { appointmentId, assignmentId } }] : [];
  };
}

function known(state: Appointment | undefined): Appointment {
  if (!state) throw new DomainError("appointment_not_found", "there is no such appointment");
  return state;
}
