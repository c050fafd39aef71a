import { getTimeZone } from "./clinics.js";
import { formatDate, formatTimeOfDay } from "./format.js";
import { createNamedId } from "./names.js";
import { formatType } from "./text.js";

/**
 * Describes what an event changed. Returns the empty string for an event whose type says it all, or whose data cannot be
 * read.
 *
 * @param {{ scheduledAt: string, durationMinutes: number } | undefined} before schedule before the event, if known
 */
export function describeChange({ type, data, problem }, before, timeZone) {
  if (problem) return "";
  const describe = {
    AppointmentRequested: () => describeSchedule(data, timeZone),
    AppointmentImported: () => describeSchedule(data, timeZone),
    AppointmentRescheduled: () => describeMove(data, before, timeZone),
    ResourceAllocated: () => describeSpan(data.allocationStart, data.allocationEnd, timeZone),
  }[type];
  const text = describe?.() ?? "";
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * Describes the reason in an event; an empty string without a reason. For a new appointment, the text says "reason for
 * the visit", so that readers do not take it for the reason of a later move.
 */
export function describeReason({ type, data }) {
  if (!data?.reason) return "";
  const isVisit = type === "AppointmentRequested" || type === "AppointmentImported";
  return `${isVisit ? "reason for the visit" : "reason"}: ${data.reason}`;
}

/** Describes who caused an event. Returns the parts of a sentence, with the actor's name. */
export function describeActor(actor) {
  return actor ? [`by ${actor.type} `, createNamedId(actor.id)] : ["by unknown"];
}

/**
 * Describes an event in a sentence: the change, the actor and the reason. Returns the parts of the sentence.
 *
 * @param {{ scheduledAt: string, durationMinutes: number } | undefined} before schedule before the event, if known
 * @param {(Node | string)[]} time parts that say when; empty if the time is shown elsewhere
 */
export function describeEvent(event, before, time = []) {
  const change = describeChange(event, before, getTimeZone(event.clinicId));
  const reason = describeReason(event);
  return [change || formatType(event.type), " ", ...describeActor(event.actor), ...time, reason && `, ${reason}`];
}

function describeSchedule({ scheduledAt, durationMinutes }, timeZone) {
  return `for ${formatStart(scheduledAt, timeZone)}, ${durationMinutes} min`;
}

function describeMove({ scheduledAt, durationMinutes }, before, timeZone) {
  if (!before) return `moved to ${formatStart(scheduledAt, timeZone)}, ${durationMinutes} min`;
  const durationText =
    before.durationMinutes === durationMinutes ? "" : `${before.durationMinutes} min to ${durationMinutes} min`;
  if (before.scheduledAt === scheduledAt) return `duration changed from ${durationText}`;
  const start = describeSpan(before.scheduledAt, scheduledAt, timeZone);
  return `moved ${start}${durationText && `, duration changed from ${durationText}`}`;
}

/** Describes two times: `from Fri 27 Nov 2026, 08:30 to 15:00`. Omits the second date if both dates are the same. */
function describeSpan(from, to, timeZone) {
  const isSameDay = formatDate(from, timeZone) === formatDate(to, timeZone);
  return `from ${formatStart(from, timeZone)} to ${isSameDay ? formatTimeOfDay(to, timeZone) : formatStart(to, timeZone)}`;
}

function formatStart(instant, timeZone) {
  return `${formatDate(instant, timeZone)}, ${formatTimeOfDay(instant, timeZone)}`;
}
