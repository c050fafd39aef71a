import { fetchLines } from "./api.js";
import { SCHEDULING_TYPES } from "./schedules.js";
import { describeEvent } from "./sentences.js";
import { createLocalTime } from "./times.js";

/** Maximum number of appointments in one list whose events are requested. */
const MAX_APPOINTMENTS = 20;

/**
 * Describes in each row of a moved appointment who moved it, when, why, and from which time to which. Requests the events
 * of each appointment once, one appointment after the other. Rows after the first 20 moved appointments stay as they are.
 *
 * @param {[appointment: object, element: HTMLElement][]} rows
 * @param {AbortSignal} signal
 */
export async function describeMoves(rows, signal) {
  const movedRows = rows.filter(([{ isMoved }]) => isMoved);
  const ids = [...new Set(movedRows.map(([{ id }]) => id))];
  for (const id of ids.slice(0, MAX_APPOINTMENTS)) {
    const moves = await readMoves(id, signal);
    for (const [appointment, element] of movedRows) {
      const move = appointment.id === id && findMove(moves, appointment);
      if (!move) continue;
      const { event, before } = move;
      const time = [", ", createLocalTime(event.occurredAt, event.clinicId)];
      element.replaceChildren(...describeEvent(event, before, time));
    }
  }
}

/** Reads the events that moved an appointment, each with the schedule before it. */
async function readMoves(id, signal) {
  const moves = [];
  let before;
  const query = { stream: `appointment-${id}`, type: SCHEDULING_TYPES.join(",") };
  for await (const event of fetchLines("events", query, signal)) {
    const schedule = event.problem ? undefined : event.data;
    if (before && schedule && before.scheduledAt !== schedule.scheduledAt) moves.push({ event, before });
    before = schedule;
  }
  return moves;
}

/** Finds the last move away from the former time of a row, or the last move to its present time. */
function findMove(moves, { movedFrom, scheduledAt }) {
  return moves.findLast(({ event, before }) =>
    movedFrom === null ? event.data.scheduledAt === scheduledAt : before.scheduledAt === movedFrom,
  );
}
