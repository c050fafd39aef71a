import {
  allocateResource,
  cancelAppointment,
  checkInAppointment,
  completeAppointment,
  confirmAppointment,
  markNoShow,
  putAppointmentInWaiting,
  requestAppointment,
  startConsultation,
} from "../../../command/operations/appointment-operations.ts";
import type { AppointmentStatus } from "../../../shared/domain/appointment/appointment.ts";
import { DAY_MS, MINUTE_MS } from "../../../shared/domain/time/local-time.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { createPicker, deriveDemoId } from "./random.ts";
import { deriveRoomId } from "./resources.ts";
import { createStep, type Operation, type Step, type StepSequence } from "./steps.ts";
import type { DemoAppointment } from "./week.ts";

/** A change of an appointment's status: its time in minutes relative to the scheduled time, and its operation. */
type StatusChange = [minutes: number, Operation<{ clinicId: string; appointmentId: string }>];

const confirmChange: StatusChange = [-1440, confirmAppointment];
const checkInChange: StatusChange = [-10, checkInAppointment];
const waitChange: StatusChange = [-5, putAppointmentInWaiting];
const startChange: StatusChange = [2, startConsultation];
const completeChange: StatusChange = [25, completeAppointment];
const noShowChange: StatusChange = [30, markNoShow];
const cancelChange: StatusChange = [
  -120,
  (log, ids, context) => cancelAppointment(log, { ...ids, reason: "Cancelled by the owner" }, context),
];

/** Status changes that lead from `requested` to each status. */
const STATUS_CHANGES: Record<AppointmentStatus, StatusChange[]> = {
  requested: [],
  confirmed: [confirmChange],
  checked_in: [confirmChange, checkInChange],
  waiting: [confirmChange, checkInChange, waitChange],
  in_consultation: [confirmChange, checkInChange, waitChange, startChange],
  completed: [confirmChange, checkInChange, waitChange, startChange, completeChange],
  cancelled: [confirmChange, cancelChange],
  no_show: [confirmChange, noShowChange],
};

/**
 * Returns the steps of an appointment: the request, the allocation of a room, and the status changes. An appointment
 * whose status stays `requested` gets no room.
 */
export function createAppointment(appointment: DemoAppointment, now: number): StepSequence {
  const { id: appointmentId, clinic, scheduledAt, status } = appointment;
  const ids = { clinicId: clinic.id, appointmentId };
  const requestedAt = Math.min(scheduledAt, now) - (2 + createPicker(appointmentId).pickIntegerBelow(10)) * DAY_MS;
  const { branchId, animalId, durationMinutes, reason, notes } = appointment;
  const details = { branchId, animalId, durationMinutes, reason, notes };
  const request = { ...ids, ...details, scheduledAt: toInstant(scheduledAt) };
  const name = `appointment ${appointmentId}`;
  const changeSteps = STATUS_CHANGES[status].map(([offsetMinutes, operation], index) => {
    const changedAt = Math.max(requestedAt + MINUTE_MS, Math.min(scheduledAt + offsetMinutes * MINUTE_MS, now));
    return createStep(`${name} move ${index}`, changedAt, operation, ids);
  });
  const allocationSteps = status === "requested" ? [] : [allocateRoom(appointment, requestedAt + MINUTE_MS)];
  return [createStep(name, requestedAt, requestAppointment, request), ...allocationSteps, ...changeSteps];
}

function allocateRoom(appointment: DemoAppointment, allocatedAt: number): Step {
  const { id: appointmentId, clinic, branchId, scheduledAt, durationMinutes, indexInDay } = appointment;
  const allocation = {
    appointmentId,
    clinicId: clinic.id,
    assignmentId: deriveDemoId(appointmentId, "assignment"),
    resourceId: deriveRoomId(clinic, branchId, indexInDay % 2 === 0 ? 0 : 1),
    allocationStart: toInstant(scheduledAt),
    allocationEnd: toInstant(scheduledAt + durationMinutes * MINUTE_MS),
  };
  return createStep(`appointment ${appointmentId} room`, allocatedAt, allocateResource, allocation);
}
