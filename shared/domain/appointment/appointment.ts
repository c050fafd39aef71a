import type { Aggregate } from "../aggregate.ts";
import { type AppointmentEvent, appointmentCategory } from "../events/appointment.ts";
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
