/**
 * A date-time in the form that all stored events and HTTP responses use: RFC 3339 in UTC, with milliseconds and `Z`.
 */
export type Instant = string;

const RFC3339_PATTERN = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?([Zz]|([+-])(\d{2}):(\d{2}))$/;

/**
 * Parses an RFC 3339 date-time. The offset is required, and the day must exist in the calendar. Digits after the
 * millisecond are ignored.
 *
 * @returns milliseconds since 1970, or undefined if the text is not such a date-time
 */
export function parseRfc3339(text: string): number | undefined {
  const match = RFC3339_PATTERN.exec(text);
  if (!match) return undefined;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match.slice(1, 7).map(Number);
  const offsetHour = Number(match[10] ?? 0);
  const offsetMinute = Number(match[11] ?? 0);
  if (hour > 23 || minute > 59 || second > 59 || offsetHour > 23 || offsetMinute > 59) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  date.setUTCHours(hour, minute, second, Number((match[7] ?? "").padEnd(3, "0").slice(0, 3)));
  const offsetMs = (match[9] === "-" ? -1 : 1) * (offsetHour * 60 + offsetMinute) * 60_000;
  return date.getTime() - offsetMs;
}

/**
 * Formats a time as an {@link Instant}.
 *
 * @param milliseconds milliseconds since 1970
 */
export function toInstant(milliseconds: number): Instant {
  return new Date(milliseconds).toISOString();
}

/**
 * Formats a time as an {@link Instant}. Returns undefined before the year 1 and after the year 9999: Postgres has no
 * year 0, and RFC 3339 has only four-digit years.
 *
 * @param milliseconds milliseconds since 1970
 */
export function toInstantInRange(milliseconds: number): Instant | undefined {
  const text = toInstant(milliseconds);
  return text.length === 24 && text > "0001" ? text : undefined;
}
