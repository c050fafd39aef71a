import {
  callTicket,
  completeTicket,
  issueTicket,
  placeHold,
  releaseHold,
} from "../../../command/operations/front-desk-operations.ts";
import { addDays, DAY_MS, fromLocalTime, MINUTE_MS, toLocalDate } from "../../../shared/domain/time/local-time.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { listAnimals } from "./animals.ts";
import type { DemoClinic } from "./clinics.ts";
import { createPicker, deriveDemoId } from "./random.ts";
import { deriveRoomId } from "./resources.ts";
import { createStep, type StepSequence } from "./steps.ts";
import type { DemoAppointment } from "./week.ts";

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
    ...{ ...ticketIds, branchId, appointmentId, visitId: null, animalId, queueDate: date },
    ...{ ticketNumber: `A${String(indexInDay + 1).padStart(3, "0")}`, arrivalType: "appointment" },
    ...{ priority: "normal", estimatedWaitMinutes: 10, notes: null },
  };
  const computeTime = (minutes: number) => Math.min(appointment.scheduledAt + minutes * MINUTE_MS, now);
  const name = `ticket ${appointmentId}`;
  const sequence = [createStep(name, computeTime(-8), issueTicket, issueInput)];
  if (isCalled) sequence.push(createStep(`${name} called`, computeTime(1), callTicket, ticketIds));
  if (status === "completed") sequence.push(createStep(`${name} done`, computeTime(26), completeTicket, ticketIds));
  return sequence;
}

/** Issues a ticket for an urgent walk-in at each branch. */
export function addWalkIns(clinic: DemoClinic, now: number): StepSequence[] {
  const queueDate = toLocalDate(clinic.timezone, now);
  return clinic.branches.map(({ id: branchId }) => {
    const ticketId = deriveDemoId(branchId, "walk-in", queueDate);
    const animal = createPicker(ticketId).pick(listAnimals(clinic));
    const issueInput = {
      ...{ ticketId, clinicId: clinic.id, branchId, appointmentId: null, visitId: null, animalId: animal.id },
      ...{ ticketNumber: "W001", queueDate, arrivalType: "walk_in", priority: "urgent" },
      ...{ estimatedWaitMinutes: 5, notes: "Possible poisoning" },
    };
    return [createStep(`walk-in ${ticketId}`, now - 5 * MINUTE_MS, issueTicket, issueInput)];
  });
}

/** Places two holds on a room of each branch for tomorrow, and releases the second hold. Holds expire in a week. */
export function addHolds(clinic: DemoClinic, now: number): StepSequence[] {
  const { id: clinicId, timezone } = clinic;
  const tomorrow = addDays(toLocalDate(timezone, now), 1);
  return clinic.branches.flatMap(({ id: branchId }) =>
    ["12:00", "13:00"].map((time, index) => {
      const startsAt = fromLocalTime(timezone, tomorrow, time);
      const holdId = deriveDemoId(branchId, "hold", tomorrow, time);
      const holdInput = {
        ...{ holdId, clinicId, branchId, resourceId: deriveRoomId(clinic, branchId, 0) },
        ...{ startsAt: toInstant(startsAt), endsAt: toInstant(startsAt + 30 * MINUTE_MS) },
        expiresAt: toInstant(now + 7 * DAY_MS),
      };
      const placeStep = createStep(`hold ${holdId}`, now, placeHold, holdInput);
      if (index === 0) return [placeStep];
      return [placeStep, createStep(`hold ${holdId} released`, now, releaseHold, { clinicId, holdId })];
    }),
  );
}
