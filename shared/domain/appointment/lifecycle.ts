import { DomainError } from "../domain-error.ts";
import type { AppointmentEvent } from "../events/appointment.ts";
import type { Instant } from "../time/rfc3339.ts";
import type { Appointment, AppointmentStatus, statusAfter } from "./appointment.ts";

type Decision = (state: Appointment | undefined) => AppointmentEvent[];
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

export const decideConfirm = (): Decision => plainMove("AppointmentConfirmed");
export const decideCheckIn = (): Decision => plainMove("AppointmentCheckedIn");
export const decidePutInWaiting = (): Decision => plainMove("AppointmentPutInWaiting");
export const decideStartConsultation = (): Decision => plainMove("ConsultationStarted");
export const decideComplete = (): Decision => plainMove("AppointmentCompleted");

/** What was allocated to it is free again. */
export function decideCancel(reason: string | null): Decision {
  return (state) => {
    const appointment = movable(state, "AppointmentCancelled");
    const { id: appointmentId } = appointment;
    return [{ type: "AppointmentCancelled", data: { appointmentId, reason } }, ...releaseAll(appointment)];
  };
}

/** Not before its time. What was allocated to it is free again. */
export function decideMarkNoShow(now: number): Decision {
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
): Decision {
  return (state) => {
    const appointment = known(state);
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

function plainMove(type: Exclude<Move, "AppointmentCancelled" | "AppointmentMarkedNoShow">): Decision {
  return (state) => [{ type, data: { appointmentId: movable(state, type).id } }];
}

function releaseAll({ id: appointmentId, assignments }: Appointment): AppointmentEvent[] {
  return assignments
    .filter(({ active }) => active)
    .map(({ id: assignmentId }) => ({ type: "ResourceReleased", data: { appointmentId, assignmentId } }));
}

function movable(state: Appointment | undefined, move: Move): Appointment {
  const appointment = known(state);
  const from: readonly AppointmentStatus[] = legalFrom[move];
  if (!from.includes(appointment.status)) throw illegal(appointment.status, move);
  return appointment;
}

function illegal(status: AppointmentStatus, move: string): DomainError {
  return new DomainError("illegal_transition", `an appointment that is ${status} has no move ${move}`);
}

function known(state: Appointment | undefined): Appointment {
  if (!state) throw new DomainError("appointment_not_found", "there is no such appointment");
  return state;
}
