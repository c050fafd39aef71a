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
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { createChoices, demoId } from "./random.ts";
import { roomId } from "./resources.ts";
import type { Chain, Step } from "./steps.ts";
import type { DemoAppointment } from "./week.ts";

const MINUTE = 60_000;
const DAY = 1440 * MINUTE;

type Of = { clinicId: string; appointmentId: string };
/** A status change, and the minutes between the scheduled time and the change. */
type Move = [late: number, make: (of: Of) => Step["run"]];

const confirm: Move = [-DAY / MINUTE, (of) => (log, context) => confirmAppointment(log, of, context)];
const checkIn: Move = [-10, (of) => (log, context) => checkInAppointment(log, of, context)];
const wait: Move = [-5, (of) => (log, context) => putAppointmentInWaiting(log, of, context)];
const start: Move = [2, (of) => (log, context) => startConsultation(log, of, context)];
const complete: Move = [25, (of) => (log, context) => completeAppointment(log, of, context)];
const noShow: Move = [30, (of) => (log, context) => markNoShow(log, of, context)];
const cancel: Move = [
  -120,
  (of) => (log, context) => cancelAppointment(log, { ...of, reason: "Owner called off" }, context),
];

/** Status changes that lead to each status. */
const MOVES: Record<AppointmentStatus, Move[]> = {
  requested: [],
  confirmed: [confirm],
  checked_in: [confirm, checkIn],
  waiting: [confirm, checkIn, wait],
  in_consultation: [confirm, checkIn, wait, start],
  completed: [confirm, checkIn, wait, start, complete],
  cancelled: [confirm, cancel],
  no_show: [confirm, noShow],
};

/** Returns the steps of an appointment: request, room if confirmed, and the changes up to its status. */
export function createAppointment(appointment: DemoAppointment, now: number): Chain {
  const { id: appointmentId, clinic, scheduledAt, status } = appointment;
  const of = { clinicId: clinic.id, appointmentId };
  const requestedAt = Math.min(scheduledAt, now) - (2 + createChoices(appointmentId).integerBelow(10)) * DAY;
  const { branchId, animalId, durationMinutes, reason, notes } = appointment;
  const about = { branchId, animalId, durationMinutes, reason, notes };
  const request = { ...of, ...about, scheduledAt: toInstant(scheduledAt) };
  const name = `appointment ${appointmentId}`;
  const moves = MOVES[status].map(([late, make], index): Step => {
    const at = Math.max(requestedAt + MINUTE, Math.min(scheduledAt + late * MINUTE, now));
    return { name: `${name} move ${index}`, at, run: make(of) };
  });
  const allocation = status === "requested" ? [] : [allocateRoom(appointment, requestedAt + MINUTE)];
  return [
    { name, at: requestedAt, run: (log, context) => requestAppointment(log, request, context) },
    ...allocation,
    ...moves,
  ];
}

function allocateRoom(appointment: DemoAppointment, at: number): Step {
  const { id: appointmentId, clinic, branchId, scheduledAt, durationMinutes, indexInDay } = appointment;
  const allocation = {
    appointmentId,
    clinicId: clinic.id,
    assignmentId: demoId(appointmentId, "assignment"),
    resourceId: roomId(clinic, branchId, indexInDay % 2 === 0 ? 0 : 1),
    allocationStart: toInstant(scheduledAt),
    allocationEnd: toInstant(scheduledAt + durationMinutes * MINUTE),
  };
  return {
    name: `appointment ${appointmentId} room`,
    at,
    run: (log, context) => allocateResource(log, allocation, context),
  };
}
