import type { AppointmentStatus } from "../../../shared/domain/appointment/appointment.ts";
import { addDays, fromLocalTime, getWeekday, toLocalDate } from "../../../shared/domain/time/local-time.ts";
import { listAnimals } from "./animals.ts";
import type { DemoClinic } from "./clinics.ts";
import { createPicker, deriveDemoId } from "./random.ts";

/** An appointment of the demo week, with its status after all steps. */
export interface DemoAppointment {
  id: string;
  clinic: DemoClinic;
  branchId: string;
  animalId: string;
  customerId: string;
  /** Scheduled time, in milliseconds since 1970. */
  scheduledAt: number;
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

/** Statuses of a branch's appointments on a past day. */
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
 * Returns the appointments of all branches from three days ago to three days ahead. They cover every status.
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
        const { id: animalId, customerId } = picker.pick(animals);
        return {
          ...{ id, clinic, branchId, animalId, customerId, scheduledAt, date, indexInDay },
          durationMinutes: picker.pick([15, 30, 30, 45]),
          reason: picker.pick(REASONS),
          notes: picker.pickBoolean(0.3) ? "Owner asks for a call beforehand." : null,
          status: chooseStatus(dayOffset, indexInDay, startTimes, now),
        };
      });
    }),
  );
}

/** Chooses the status of an appointment. At any hour, some of today's appointments are in progress or waiting. */
function chooseStatus(dayOffset: number, indexInDay: number, startTimes: number[], now: number): AppointmentStatus {
  if (dayOffset !== 0)
    return (dayOffset < 0 ? PAST_STATUSES : FUTURE_STATUSES)[indexInDay % PAST_STATUSES.length] ?? "requested";
  const startedCount = startTimes.filter((startTime) => startTime <= now).length;
  const currentIndex = Math.min(Math.max(startedCount - 1, 0), startTimes.length - 3);
  if (indexInDay < currentIndex) return "completed";
  return (["in_consultation", "waiting", "checked_in", "confirmed"] as const)[indexInDay - currentIndex] ?? "requested";
}
