/** Functions that convert between instants and the local times of a time zone. */

const DAY_MS = 24 * 3_600_000;

/**
 * Returns the first instant at which clocks show a local time, or an instant after the gap if clocks skip this time.
 *
 * @param {string} localTime value of an input of type `datetime-local`, or of type `date` for midnight
 * @param {number} days days to add to the local time. They can have 23 or 25 hours
 */
export function toInstant(localTime, timeZone, days = 0) {
  const utcMs = Date.parse(localTime.includes("T") ? `${localTime}Z` : `${localTime}T00:00Z`) + days * DAY_MS;
  const instants = [-DAY_MS, DAY_MS].map((ms) => utcMs - readOffsetMs(utcMs + ms, timeZone));
  const instant = instants.find((ms) => ms + readOffsetMs(ms, timeZone) === utcMs) ?? instants[0];
  return new Date(instant).toISOString();
}

/** Returns a local time for an input of type `datetime-local`. */
export function toLocalInput(instantMs, timeZone) {
  return new Date(instantMs + readOffsetMs(instantMs, timeZone)).toISOString().slice(0, 16);
}

/** Returns the offset of a time zone from UTC at an instant, in milliseconds. */
function readOffsetMs(instantMs, timeZone) {
  const options = { timeZone, timeZoneName: "longOffset" };
  const parts = new Intl.DateTimeFormat("en", options).formatToParts(new Date(instantMs));
  const name = parts.find(({ type }) => type === "timeZoneName")?.value ?? "GMT";
  const [, sign = "+", hours = "0", minutes = "0"] = /([+-])(\d+):(\d+)/.exec(name) ?? [];
  return (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
}
