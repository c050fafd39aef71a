import { type Instant, toInstantInRange } from "./rfc3339.ts";

export const MINUTE_MS = 60_000;
export const DAY_MS = 1440 * MINUTE_MS;

/** Returns the calendar date (YYYY-MM-DD) of a time in a time zone. */
export function toLocalDate(timeZone: string, epochMs: number): string {
  return new Date(toLocalMs(timeZone, epochMs)).toISOString().slice(0, 10);
}

/** Formats a time as an RFC 3339 date-time in a time zone, with seconds and its offset from UTC in whole minutes. */
export function formatLocalTime(timeZone: string, epochMs: number): string {
  const offsetMinutes = Math.round((toLocalMs(timeZone, epochMs) - epochMs) / MINUTE_MS);
  const local = new Date(epochMs + offsetMinutes * MINUTE_MS).toISOString().slice(0, 19);
  const toText = (value: number) => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(Math.abs(offsetMinutes) / 60), Math.abs(offsetMinutes) % 60];
  return `${local}${offsetMinutes < 0 ? "-" : "+"}${toText(hours)}:${toText(minutes)}`;
}

/** Adds days to a date. A negative number subtracts days. */
export function addDays(date: string, days: number): string {
  return new Date(Date.parse(date) + days * DAY_MS).toISOString().slice(0, 10);
}

/** Returns the weekday of a date; 0 is Sunday. */
export function getWeekday(date: string): number {
  return new Date(date).getUTCDay();
}

/**
 * Returns the instants at which the clocks of a time zone show a date and a time: none if they skip this time, two if
 * they repeat it.
 *
 * @param time HH:MM
 * @returns milliseconds since 1970, in ascending order
 */
export function findLocalTime(timeZone: string, date: string, time: string): number[] {
  return findLocalMs(timeZone, Date.parse(`${date}T${time}Z`));
}

/**
 * Returns the first instant at which the clocks of a time zone show a date and a time. If they skip this time, returns
 * the end of the gap.
 *
 * @param time HH:MM
 * @returns milliseconds since 1970
 */
export function fromLocalTime(timeZone: string, date: string, time: string): number {
  return findFirst(timeZone, Date.parse(`${date}T${time}Z`));
}

/**
 * Returns the start and end of a date in a time zone. The day starts when the clocks first show the date, and ends when
 * they first show a later date. If the clocks skip the date, start and end are equal.
 *
 * @returns `from` inclusive, `to` exclusive; each is undefined if its year is before 1 or after 9999
 */
export function getDay(timeZone: string, date: string): { from: Instant | undefined; to: Instant | undefined } {
  const { fromMs, toMs } = toLocalDay(timeZone, Date.parse(date));
  return { from: toInstantInRange(fromMs), to: toInstantInRange(toMs) };
}

/** A day in a time zone. All times are in milliseconds since 1970. */
export interface LocalDay {
  /** Midnight of the day's date in UTC. */
  dateMs: number;
  /** Inclusive. */
  fromMs: number;
  /** Exclusive. */
  toMs: number;
}

/**
 * Finds the day in a time zone to which an instant belongs. Days start and end as in {@link getDay}.
 *
 * @param epochMs milliseconds since 1970
 */
export function findDay(timeZone: string, epochMs: number): LocalDay {
  let day = toLocalDay(timeZone, Math.floor(toLocalMs(timeZone, epochMs) / DAY_MS) * DAY_MS);
  // After a change, the clocks can show the date of a day that has ended.
  while (day.toMs <= epochMs) day = toLocalDay(timeZone, day.dateMs + DAY_MS);
  return day;
}

function toLocalDay(timeZone: string, dateMs: number): LocalDay {
  return { dateMs, fromMs: findFirst(timeZone, dateMs), toMs: findFirst(timeZone, dateMs + DAY_MS) };
}

/** Part of a time range in which a time zone has one UTC offset. All values are in milliseconds. */
export interface OffsetSpan {
  /** Inclusive. */
  fromMs: number;
  /** Exclusive. */
  toMs: number;
  /** Difference between local time and UTC. */
  offsetMs: number;
}

/**
 * Divides a time range at the changes of a time zone's UTC offset.
 *
 * @param fromMs start of the range, inclusive, in milliseconds since 1970
 * @param toMs end of the range, exclusive
 */
export function listOffsets(timeZone: string, fromMs: number, toMs: number): OffsetSpan[] {
  const getOffset = (epochMs: number) => toLocalMs(timeZone, epochMs) - epochMs;
  let span: OffsetSpan = { fromMs, toMs, offsetMs: getOffset(fromMs) };
  const spans = [span];
  for (let dayMs = fromMs; dayMs < toMs; dayMs += DAY_MS) {
    const { offsetMs } = span;
    let [before, after] = [dayMs, Math.min(dayMs + DAY_MS, toMs)];
    const nextOffsetMs = getOffset(after);
    if (nextOffsetMs === offsetMs) continue;
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      if (getOffset(middle) === offsetMs) before = middle;
      else after = middle;
    }
    span.toMs = after;
    span = { fromMs: after, toMs, offsetMs: nextOffsetMs };
    spans.push(span);
  }
  return spans;
}

/**
 * Converts an instant to a local date and time, encoded as if it were in UTC.
 *
 * @param epochMs milliseconds since 1970
 */
function toLocalMs(timeZone: string, epochMs: number): number {
  const { era, ...parts } = splitLocalTime(timeZone, epochMs);
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = PART_NAMES.map((name) =>
    Number(parts[name]),
  );
  const local = new Date(0);
  local.setUTCFullYear(era === "BC" ? 1 - year : year, month - 1, day);
  return local.setUTCHours(hour, minute, second) + (((epochMs % 1000) + 1000) % 1000);
}

function findLocalMs(timeZone: string, localMs: number): number[] {
  const offsets = new Set(getNearbyOffsets(timeZone, localMs));
  return [...offsets]
    .map((offsetMs) => localMs - offsetMs)
    .filter((epochMs) => toLocalMs(timeZone, epochMs) === localMs);
}

function findFirst(timeZone: string, localMs: number): number {
  const [first] = findLocalMs(timeZone, localMs);
  if (first !== undefined) return first;
  const [offsetBefore, offsetAfter] = getNearbyOffsets(timeZone, localMs);
  // The clocks are turned forward between these two instants.
  let [before, after] = [localMs - offsetAfter, localMs - offsetBefore];
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (toLocalMs(timeZone, middle) < localMs) before = middle;
    else after = middle;
  }
  return after;
}

/**
 * Returns the offsets from UTC a day before and a day after a local time, in milliseconds. The offset at the local time
 * is one of them, because no time zone changes its offset twice within two days.
 */
function getNearbyOffsets(timeZone: string, localMs: number): [before: number, after: number] {
  const [before, after] = [localMs - DAY_MS, localMs + DAY_MS];
  return [toLocalMs(timeZone, before) - before, toLocalMs(timeZone, after) - after];
}

const PART_NAMES = ["year", "month", "day", "hour", "minute", "second"] as const;

/** Cache of date formatters by time zone. Creating a formatter takes a hundred times longer than using it. */
const formatterCache = new Map<string, Intl.DateTimeFormat>();

/** Converts a time to a time zone, and returns its era, year, month, day, hour, minute and second. */
function splitLocalTime(timeZone: string, epochMs: number): Record<string, string> {
  const date = { era: "short", year: "numeric", month: "numeric", day: "numeric" } as const;
  const time = { hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23" } as const;
  const formatter = formatterCache.get(timeZone) ?? new Intl.DateTimeFormat("en", { timeZone, ...date, ...time });
  formatterCache.set(timeZone, formatter);
  return Object.fromEntries(formatter.formatToParts(epochMs).map(({ type, value }) => [type, value]));
}
