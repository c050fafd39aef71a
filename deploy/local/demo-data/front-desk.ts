import {
  callTicket,
  completeTicket,
  issueTicket,
  placeHold,
  releaseHold,
} from "../../../command/operations/front-desk-operations.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { listAnimals } from "./animals.ts";
import type { DemoClinic } from "./clinics.ts";
import { createChoices, demoId } from "./random.ts";
import { roomId } from "./resources.ts";
import type { Chain, Step } from "./steps.ts";
import { addDays, fromLocalTime, toLocalDate } from "./time.ts";
import type { DemoAppointment } from "./week.ts";

const MINUTE = 60_000;
const DAY = 1440 * MINUTE;

/**
 * Creates a ticket for each of today's appointments that is waiting or further, with a matching status. An appointment
 * that is only checked in has no ticket.
 */
export function addTicket(appointment: DemoAppointment, now: number): Chain {
  const { id: appointmentId, clinic, branchId, animalId, date, status, indexInDay } = appointment;
  if (date !== toLocalDate(clinic.timezone, now)) return [];
  const called = status === "in_consultation" || status === "completed";
  if (!called && status !== "waiting") return [];
  const clinicId = clinic.id;
  const ticketId = demoId(appointmentId, "ticket");
  const of = { ticketId, clinicId };
  const issue = {
    ...{ ...of, branchId, appointmentId, visitId: null, animalId, queueDate: date },
    ...{ ticketNumber: `A${String(indexInDay + 1).padStart(3, "0")}`, arrivalType: "appointment" },
    ...{ priority: "normal", estimatedWaitMinutes: 10, notes: null },
  };
  const at = (minutes: number) => Math.min(appointment.scheduledAt + minutes * MINUTE, now);
  const name = `ticket ${appointmentId}`;
  const chain: Chain = [{ name, at: at(-8), run: (log, context) => issueTicket(log, issue, context) }];
  if (called)
    chain.push({ name: `${name} called`, at: at(1), run: (log, context) => callTicket(log, of, context) });
  if (status === "completed")
    chain.push({ name: `${name} done`, at: at(26), run: (log, context) => completeTicket(log, of, context) });
  return chain;
}

/** Creates an urgent walk-in at each branch, who is waiting. */
export function addWalkIns(clinic: DemoClinic, now: number): Chain[] {
  const queueDate = toLocalDate(clinic.timezone, now);
  return clinic.branches.map(({ id: branchId }) => {
    const ticketId = demoId(branchId, "walk-in", queueDate);
    const animal = createChoices(ticketId).pick(listAnimals(clinic));
    const issue = {
      ...{ ticketId, clinicId: clinic.id, branchId, appointmentId: null, visitId: null, animalId: animal.id },
      ...{ ticketNumber: "W001", queueDate, arrivalType: "walk_in", priority: "urgent" },
      ...{ estimatedWaitMinutes: 5, notes: "Possible poisoning" },
    };
    const run: Step["run"] = (log, context) => issueTicket(log, issue, context);
    return [{ name: `walk-in ${ticketId}`, at: now - 5 * MINUTE, run }];
  });
}

/** Creates two holds on a room of each branch for tomorrow at noon: one is valid for a week, one was released. */
export function addHolds(clinic: DemoClinic, now: number): Chain[] {
  const { id: clinicId, timezone } = clinic;
  const tomorrow = addDays(toLocalDate(timezone, now), 1);
  return clinic.branches.flatMap(({ id: branchId }) =>
    ["12:00", "13:00"].map((time, index): Chain => {
      const startsAt = fromLocalTime(timezone, tomorrow, time);
      const holdId = demoId(branchId, "hold", tomorrow, time);
      const placement = {
        ...{ holdId, clinicId, branchId, resourceId: roomId(clinic, branchId, 0) },
        ...{ startsAt: toInstant(startsAt), endsAt: toInstant(startsAt + 30 * MINUTE) },
        expiresAt: toInstant(now + 7 * DAY),
      };
      const chain: Chain = [
        { name: `hold ${holdId}`, at: now, run: (log, context) => placeHold(log, placement, context) },
      ];
      const of = { clinicId, holdId };
      if (index === 1)
        chain.push({
          name: `hold ${holdId} released`,
          at: now,
          run: (log, context) => releaseHold(log, of, context),
        });
      return chain;
    }),
  );
}
