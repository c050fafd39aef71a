/** Finds the schedule that an appointment had at each listed event, so that a later move does not change the list. */

/** Listed events by stream and revision. */
const eventsByStream = new Map();

/** Event types that set the schedule of an appointment. */
const SCHEDULING_TYPES = ["AppointmentRequested", "AppointmentImported", "AppointmentRescheduled"];

/** Adds an event to the list. */
export function addToSchedules(event) {
  if (!event.stream.startsWith("appointment-")) return;
  if (!eventsByStream.has(event.stream)) eventsByStream.set(event.stream, new Map());
  eventsByStream.get(event.stream).set(event.revision, event);
}

/** Forgets all events. */
export function clearSchedules() {
  eventsByStream.clear();
}

/**
 * Returns the schedule of an appointment after the given revision of its stream. Returns undefined if an event that can
 * have set the schedule is not listed.
 *
 * @returns {{ scheduledAt: string, durationMinutes: number } | undefined}
 */
export function findSchedule(stream, revision) {
  const events = eventsByStream.get(stream);
  for (let event = events?.get(revision); event; event = events.get(event.revision - 1))
    if (SCHEDULING_TYPES.includes(event.type)) return event.data;
  return undefined;
}
