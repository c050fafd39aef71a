import {
  allocateResource,
  cancelAppointment,
  checkInAppointment,
  completeAppointment,
  confirmAppointment,
  markNoShow,
  putAppointmentInWaiting,
  requestAppointment,
  rescheduleAppointment,
  startConsultation,
} from "../../../command/operations/appointment-operations.ts";
import {
  callTicket,
  completeTicket,
  issueTicket,
  placeHold,
  releaseHold,
} from "../../../command/operations/front-desk-operations.ts";
import type { AppointmentStatus } from "../../../shared/domain/appointment/appointment.ts";
import {
  addDays,
  DAY_MS,
  fromLocalTime,
  getWeekday,
  MINUTE_MS,
  toLocalDate,
} from "../../../shared/domain/time/local-time.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { deriveRoomId } from "./clinic-set-up.ts";
import type { DemoClinic } from "./clinics.ts";
import { listAnimals } from "./people.ts";
import { createPicker, createStep, deriveDemoId, type Operation, type Step, type StepSequence } from "./steps.ts";

interface DemoAppointment {
  id: string;
  clinic: DemoClinic;
  branchId: string;
  animalId: string;
  /** Milliseconds since 1970. */
  scheduledAt: number;
  /** Original time of a moved appointment, in milliseconds since 1970; null if the appointment was not moved. */
  movedFrom: number | null;
  durationMinutes: number;
  reason: string;
  notes: string | null;
  status: AppointmentStatus;
  /** Calendar date (YYYY-MM-DD) in the clinic's time zone. */
  date: string;
  /** Index among the branch's appointments on this date, counted from 0. */
  indexInDay: number;
}

const WEEKDAY_TIMES = ["08:30", "10:00", "11:30", "14:00", "16:30"];
const WEEKEND_TIMES = ["09:00", "10:00", "11:00", "12:00", "13:00"];

const PAST_STATUSES: AppointmentStatus[] = ["completed", "completed", "no_show", "completed", "cancelled"];
const FUTURE_STATUSES: AppointmentStatus[] = ["confirmed", "requested", "confirmed", "cancelled", "requested"];

const REASONS = [
  "Annual check-up",
  "Vaccination",
  "Limping",
  "Skin irritation",
  "Dental check",
  "Loss of appetite",
  "Follow-up after surgery",
];

/**
 * Returns the appointments of all branches from three days ago to three days ahead. They cover every status. The first
 * appointment of tomorrow was moved from today.
 */
export function createWeekAppointments(clinic: DemoClinic, now: number): DemoAppointment[] {
  const animals = listAnimals(clinic);
  const today = toLocalDate(clinic.timezone, now);
  const dayOffsets = [-3, -2, -1, 0, 1, 2, 3];
  return clinic.branches.flatMap(({ id: branchId }) =>
    dayOffsets.flatMap((dayOffset) => {
      const date = addDays(today, dayOffset);
      const times = [0, 6].includes(getWeekday(date)) ? WEEKEND_TIMES : WEEKDAY_TIMES;
      const startTimes = times.map((time) => fromLocalTime(clinic.timezone, date, time));
      return startTimes.map((scheduledAt, indexInDay) => {
        const id = deriveDemoId("appointment", branchId, date, indexInDay);
        const picker = createPicker(id);
        const { id: animalId } = picker.pick(animals);
        return {
          id,
          clinic,
          branchId,
          animalId,
          scheduledAt,
          movedFrom: dayOffset === 1 && indexInDay === 0 ? fromLocalTime(clinic.timezone, today, "13:45") : null,
          date,
          indexInDay,
          durationMinutes: picker.pick([15, 30, 30, 45]),
          reason: picker.pick(REASONS),
          notes: picker.pickBoolean(0.3) ? "Owner asks for a call beforehand." : null,
          status: chooseStatus(dayOffset, indexInDay, startTimes, now),
        };
      });
    }),
  );
}

/** Chooses a status that fits the time: at any hour, some of today's appointments are in progress or waiting. */
function chooseStatus(dayOffset: number, indexInDay: number, startTimes: number[], now: number): AppointmentStatus {
  if (dayOffset !== 0)
    return (dayOffset < 0 ? PAST_STATUSES : FUTURE_STATUSES)[indexInDay % PAST_STATUSES.length] ?? "requested";
  const startedCount = startTimes.filter((startTime) => startTime <= now).length;
  const currentIndex = Math.min(Math.max(startedCount - 1, 0), startTimes.length - 3);
  if (indexInDay < currentIndex) return "completed";
  return (["in_consultation", "waiting", "checked_in", "confirmed"] as const)[indexInDay - currentIndex] ?? "requested";
}

/** The time is in minutes relative to the scheduled time. */
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
 * Returns the steps of an appointment: the request, the move, the allocation of a room, and the status changes. An
 * appointment whose status stays `requested` gets no room.
 */
export function createAppointment(appointment: DemoAppointment, now: number): StepSequence {
  const { id: appointmentId, clinic, scheduledAt, movedFrom, status } = appointment;
  const ids = { clinicId: clinic.id, appointmentId };
  const requestedAt = Math.min(scheduledAt, now) - (2 + createPicker(appointmentId).pickIntegerBelow(10)) * DAY_MS;
  const { branchId, animalId, durationMinutes, reason, notes } = appointment;
  const details = { branchId, animalId, durationMinutes, reason, notes };
  const request = { ...ids, ...details, scheduledAt: toInstant(movedFrom ?? scheduledAt) };
  const name = `appointment ${appointmentId}`;
  const changeSteps = STATUS_CHANGES[status].map(([offsetMinutes, operation], index) => {
    const changedAt = Math.max(requestedAt + MINUTE_MS, Math.min(scheduledAt + offsetMinutes * MINUTE_MS, now));
    return createStep(`${name} move ${index}`, changedAt, operation, ids);
  });
  const move = { ...ids, scheduledAt: toInstant(scheduledAt), reason: "The veterinarian is ill" };
  const moveStep = createStep(`${name} rescheduled`, requestedAt + MINUTE_MS, rescheduleAppointment, move);
  const allocationSteps = status === "requested" ? [] : [allocateRoom(appointment, requestedAt + MINUTE_MS)];
  return [
    createStep(name, requestedAt, requestAppointment, request),
    ...(movedFrom === null ? [] : [moveStep]),
    ...allocationSteps,
    ...changeSteps,
  ];
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

/**
 * Issues a queue ticket if the appointment is today and has the status `waiting`, `in_consultation` or `completed`. The
 * ticket's status matches the appointment's status.
 */
export function addTicket(appointment: DemoAppointment, now: number): StepSequence {
  const { id: appointmentId, clinic, branchId, animalId, date, status, indexInDay } = appointment;
  if (date !== toLocalDate(clinic.timezone, now)) return [];
  const isCalled = status === "in_consultation" || status === "completed";
  if (!isCalled && status !== "waiting") return [];
  const clinicId = clinic.id;
  const ticketId = deriveDemoId(appointmentId, "ticket");
  const ticketIds = { ticketId, clinicId };
  const issueInput = {
    ...ticketIds,
    branchId,
    appointmentId,
    visitId: null,
    animalId,
    queueDate: date,
    ticketNumber: `A${String(indexInDay + 1).padStart(3, "0")}`,
    arrivalType: "appointment",
    priority: "normal",
    estimatedWaitMinutes: 10,
    notes: null,
  };
  const computeTime = (minutes: number) => Math.min(appointment.scheduledAt + minutes * MINUTE_MS, now);
  const name = `ticket ${appointmentId}`;
  const sequence = [createStep(name, computeTime(-8), issueTicket, issueInput)];
  if (isCalled) sequence.push(createStep(`${name} called`, computeTime(1), callTicket, ticketIds));
  if (status === "completed") sequence.push(createStep(`${name} done`, computeTime(26), completeTicket, ticketIds));
  return sequence;
}

export function addWalkIns(clinic: DemoClinic, now: number): StepSequence[] {
  const queueDate = toLocalDate(clinic.timezone, now);
  return clinic.branches.map(({ id: branchId }) => {
    const ticketId = deriveDemoId(branchId, "walk-in", queueDate);
    const animal = createPicker(ticketId).pick(listAnimals(clinic));
    const issueInput = {
      ticketId,
      clinicId: clinic.id,
      branchId,
      appointmentId: null,
      visitId: null,
      animalId: animal.id,
      ticketNumber: "W001",
      queueDate,
      arrivalType: "walk_in",
      priority: "urgent",
      estimatedWaitMinutes: 5,
      notes: "Possible poisoning",
    };
    return [createStep(`walk-in ${ticketId}`, now - 5 * MINUTE_MS, issueTicket, issueInput)];
  });
}

/** Places two holds for tomorrow when the room has no appointment, and releases the second. Holds expire in a week. */
export function addHolds(clinic: DemoClinic, now: number): StepSequence[] {
  const { id: clinicId, timezone } = clinic;
  const tomorrow = addDays(toLocalDate(timezone, now), 1);
  return clinic.branches.flatMap(({ id: branchId }) =>
    ["15:00", "16:00"].map((time, index) => {
      const startsAt = fromLocalTime(timezone, tomorrow, time);
      const holdId = deriveDemoId(branchId, "hold", tomorrow, time);
      const holdInput = {
        holdId,
        clinicId,
        branchId,
        resourceId: deriveRoomId(clinic, branchId, 0),
        startsAt: toInstant(startsAt),
        endsAt: toInstant(startsAt + 30 * MINUTE_MS),
        expiresAt: toInstant(now + 7 * DAY_MS),
      };
      const placeStep = createStep(`hold ${holdId}`, now, placeHold, holdInput);
      if (index === 0) return [placeStep];
      return [placeStep, createStep(`hold ${holdId} released`, now, releaseHold, { clinicId, holdId })];
    }),
  );
}
