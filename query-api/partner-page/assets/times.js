import { h } from "./dom.js";
import { formatMinute, formatUtc } from "./format.js";

/** Creates an element with a time in UTC, to the second. */
export function createTime(instant) {
  return h("time", { datetime: instant, title: formatUtc(instant) }, formatUtc(instant.replace(/\.\d+Z$/, "Z")));
}

/** Creates an element with a time in a time zone, to the minute. */
export function createLocalTime(instant, timeZone) {
  return h("time", { datetime: instant, title: formatUtc(instant) }, formatMinute(instant, timeZone));
}

/**
 * Returns the instant of a local time. If clocks show the time twice, returns one of both instants. If clocks skip the
 * time, returns an instant next to the gap.
 *
 * @param {string} localTime value of an input of type `datetime-local`, or of type `date` for midnight
 * @param {string} timeZone
 */
export function toInstant(localTime, timeZone) {
  const utcMs = Date.parse(localTime.includes("T") ? `${localTime}Z` : `${localTime}T00:00Z`);
  // The offset is that of the time zone at the resulting instant, which the first guess may miss by a clock change.
  const guessMs = utcMs - readOffsetMs(utcMs, timeZone);
  return new Date(utcMs - readOffsetMs(guessMs, timeZone)).toISOString();
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
