import { describeEvent } from "./sentences.js";
import { createLocalTime } from "./times.js";

/**
 * Describes in each row of a moved appointment who moved it, when, why, and from which time to which.
 *
 * @param {[appointment: object, element: HTMLElement][]} rows
 * @param {object[]} events events that scheduled the moved appointments, in the order of each stream
 */
export function describeMoves(rows, events) {
  for (const [appointment, element] of rows) {
    const move = findMove(events, appointment);
    if (!move) continue;
    const [before, event] = move;
    const time = [", ", createLocalTime(event.occurredAt, event.clinicId)];
    element.replaceChildren(...describeEvent(event, before.data, time));
  }
}

/** Finds the last move away from the former time of a row, or the last move to its present time. */
function findMove(events, { id, isMoved, movedFrom, scheduledAt }) {
  const schedulings = events.filter(({ stream, problem }) => isMoved && !problem && stream === `appointment-${id}`);
  const steps = schedulings.slice(1).map((event, index) => [schedulings[index], event]);
  return steps.findLast(
    ([{ data: before }, { data }]) =>
      before.scheduledAt !== data.scheduledAt &&
      (movedFrom === null ? data.scheduledAt === scheduledAt : before.scheduledAt === movedFrom),
  );
}
