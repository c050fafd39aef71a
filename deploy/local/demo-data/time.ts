const MINUTE = 60_000;
const DAY = 1440 * MINUTE;

/** Returns the calendar date (YYYY-MM-DD) of a time in a time zone. */
export function toLocalDate(timeZone: string, milliseconds: number): string {
  const { year, month, day } = splitLocalTime(timeZone, milliseconds);
  return `${year}-${month}-${day}`;
}

/** Adds days to a date; a negative number goes back. */
export function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * DAY).toISOString().slice(0, 10);
}

/** Returns the weekday; 0 is Sunday. */
export function getWeekday(date: string): number {
  return new Date(`${date}T00:00:00Z`).getUTCDay();
}

/**
 * Converts a local date and time of day to a time.
 *
 * @param time HH:MM
 * @returns milliseconds since 1970
 */
export function fromLocalTime(timeZone: string, date: string, time: string): number {
  const wanted = Date.parse(`${date}T${time}:00Z`);
  // The second round corrects a first guess on the other side of a daylight saving change.
  const guess = wanted - getUtcOffset(timeZone, wanted);
  return wanted - getUtcOffset(timeZone, guess);
}

/** Returns the offset of a time zone from UTC, in milliseconds. */
function getUtcOffset(timeZone: string, milliseconds: number): number {
  const { year, month, day, hour, minute } = splitLocalTime(timeZone, milliseconds);
  const shown = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:00Z`);
  return shown - Math.floor(milliseconds / MINUTE) * MINUTE;
}

/** Cached, because creating a format takes longer than using it a hundred times. */
const formatCache = new Map<string, Intl.DateTimeFormat>();

function splitLocalTime(timeZone: string, milliseconds: number): Record<string, string> {
  const digits = {
    hour: "2-digit",
    minute: "2-digit",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
  } as const;
  const format =
    formatCache.get(timeZone) ?? new Intl.DateTimeFormat("en", { timeZone, hourCycle: "h23", ...digits });
  formatCache.set(timeZone, format);
  return Object.fromEntries(format.formatToParts(milliseconds).map(({ type, value }) => [type, value]));
}
