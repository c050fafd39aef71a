import { type Instant, parseRfc3339, toInstant } from "../../shared/domain/time/rfc3339.ts";

const DAY_MS = 86_400_000;

/** Maximum length of a time window, in days. */
export const MAX_WINDOW_DAYS = 31;

const DEFAULT_WINDOW_DAYS = 7;

/** Earliest and latest time that both RFC 3339 and Postgres support, in milliseconds since 1970. */
const EARLIEST_TIME = Date.parse("0001-01-01T00:00:00.000Z");
const LATEST_TIME = Date.parse("9999-12-31T23:59:59.999Z");

/** A time span: `from` inclusive, `to` exclusive. */
export interface TimeWindow {
  from: Instant;
  to: Instant;
}

/**
 * Returns the time window for a caller's parameters. If `from` is missing or invalid, the window starts now. A valid
 * `to` is later than `from`, by at most 31 days. If `to` is missing or invalid, the window ends seven days after
 * `from`.
 *
 * @param bounds start and end as text; undefined if absent
 * @param now milliseconds since 1970
 */
export function toTimeWindow(bounds: { from: string | undefined; to: string | undefined }, now: number): TimeWindow {
  // If the default window would end after the year 9999, `from` counts as invalid.
  const from = parseBound(bounds.from, LATEST_TIME - DEFAULT_WINDOW_DAYS * DAY_MS) ?? now;
  const to = parseBound(bounds.to, LATEST_TIME);
  const isToValid = to !== undefined && to > from && to <= from + MAX_WINDOW_DAYS * DAY_MS;
  return { from: toInstant(from), to: toInstant(isToValid ? to : from + DEFAULT_WINDOW_DAYS * DAY_MS) };
}

function parseBound(text: string | undefined, latestTime: number): number | undefined {
  const time = text === undefined ? undefined : parseRfc3339(text);
  return time !== undefined && time >= EARLIEST_TIME && time <= latestTime ? time : undefined;
}
