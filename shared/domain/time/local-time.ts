export const MINUTE_MS = 60_000;
export const DAY_MS = 1440 * MINUTE_MS;

/** Returns the calendar date (YYYY-MM-DD) of a time in a time zone. */
export function toLocalDate(timeZone: string, epochMs: number): string {
  const { year, month, day } = splitLocalTime(timeZone, epochMs);
  return `${year}-${month}-${day}`;
}

/** Adds days to a date. A negative number subtracts days. */
export function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
}

/** Returns the weekday of a date; 0 is Sunday. */
export function getWeekday(date: string): number {
  return new Date(`${date}T00:00:00Z`).getUTCDay();
}

/**
 * Converts a date and a time of day in a time zone to an instant.
 *
 * @param time HH:MM
 * @returns milliseconds since 1970
 */
export function fromLocalTime(timeZone: string, date: string, time: string): number {
  const localAsUtcMs = Date.parse(`${date}T${time}:00Z`);
  // Near a change to or from daylight saving time, the first offset can be wrong, so it only gives an estimate.
  const estimatedEpochMs = localAsUtcMs - getUtcOffsetMs(timeZone, localAsUtcMs);
  return localAsUtcMs - getUtcOffsetMs(timeZone, estimatedEpochMs);
}

/**
 * Returns the first instant of a date in a time zone. If the clocks skip midnight, the day starts later.
 *
 * @returns milliseconds since 1970
 */
export function getStartOfDay(timeZone: string, date: string): number {
  let startMs = fromLocalTime(timeZone, date, "00:00");
  while (toLocalDate(timeZone, startMs) < date) startMs += 15 * MINUTE_MS;
  return startMs;
}

/** Returns a time zone's offset from UTC at the given time, in milliseconds. */
function getUtcOffsetMs(timeZone: string, epochMs: number): number {
  const { year, month, day, hour, minute } = splitLocalTime(timeZone, epochMs);
  const localAsUtcMs = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:00Z`);
  return localAsUtcMs - Math.floor(epochMs / MINUTE_MS) * MINUTE_MS;
}

/** Cache of date formatters by time zone. Creating a formatter takes a hundred times longer than using it. */
const formatterCache = new Map<string, Intl.DateTimeFormat>();

/** Converts a time to a time zone, and returns its year, month, day, hour and minute as digits. */
function splitLocalTime(timeZone: string, epochMs: number): Record<string, string> {
  const date = { year: "numeric", month: "2-digit", day: "2-digit" } as const;
  const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
  const formatter = formatterCache.get(timeZone) ?? new Intl.DateTimeFormat("en", { timeZone, ...date, ...time });
  formatterCache.set(timeZone, formatter);
  return Object.fromEntries(formatter.formatToParts(epochMs).map(({ type, value }) => [type, value]));
}
