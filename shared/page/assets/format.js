/** Functions that format times, ids and numbers for display. */

/** Formats a number with its noun: `1 event`, `2 events` */
export function formatCount(count, noun, plural = `${noun}s`) {
  return `${count} ${count === 1 ? noun : plural}`;
}

/** Formats a time: `2026-05-04T08:00:00.000Z` → `2026-05-04 08:00:00.000 UTC` */
export function formatUtc(instant) {
  return instant ? `${instant.replace("T", " ").replace("Z", "")} UTC` : "unknown";
}

/** Unlike a hyphen, this character does not allow a line break after it. */
const MINUS_SIGN = "\u2212";

/** Formatters by time zone. Creating a formatter takes much longer than using it. */
const formatters = new Map();

function formatParts(instant, timeZone) {
  if (!formatters.has(timeZone)) {
    const date = { year: "numeric", month: "2-digit", day: "2-digit" };
    const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
    const options = { timeZone, timeZoneName: "shortOffset", ...date, ...time };
    formatters.set(timeZone, new Intl.DateTimeFormat("en", options));
  }
  const parts = formatters.get(timeZone).formatToParts(new Date(instant));
  return Object.fromEntries(parts.map(({ type, value }) => [type, value]));
}

/** Formats a time in a time zone, with the zone's offset: `2026-05-04 11:00:00 UTC+3` */
export function formatLocal(instant, timeZone) {
  const { year, month, day, hour, minute, second, timeZoneName } = formatParts(instant, timeZone);
  const offset = timeZoneName.replace("GMT", "UTC").replace(/\+0$/, "").replace("-", MINUS_SIGN);
  return `${year}-${month}-${day} ${hour}:${minute}:${second} ${offset}`;
}

/** Formats a time in a time zone without seconds: `2026-05-04 11:00 UTC+3` */
export function formatMinute(instant, timeZone) {
  return formatLocal(instant, timeZone).replace(/:\d\d (?=UTC)/, " ");
}

/** Formats the date of a time in a time zone: `Mon 4 May 2026` */
export function formatDate(instant, timeZone) {
  const options = { timeZone, weekday: "short", day: "numeric", month: "short", year: "numeric" };
  return new Intl.DateTimeFormat("en-GB", options).format(new Date(instant)).replace(",", "");
}

/** Formats the time of day in a time zone: `11:00` */
export function formatTimeOfDay(instant, timeZone) {
  return formatLocal(instant, timeZone).slice(11, 16);
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function isUuid(value) {
  return typeof value === "string" && UUID.test(value);
}

/** Returns the first 8 characters of a UUID, which are enough to distinguish ids in a list. */
export function shortenId(id) {
  return isUuid(id) ? id.slice(0, 8) : id;
}
