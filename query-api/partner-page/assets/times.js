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

/** Units of an age, the largest first. Milliseconds. */
const UNITS = [
  ["d", 24 * 3_600_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
];

const AGE_INTERVAL_MS = 5_000;

/** Creates an element that always shows the time since an instant, such as `5 min`. */
export function createAge(instant) {
  return h("time", { class: "age", datetime: instant, title: formatUtc(instant) }, formatAge(instant));
}

function formatAge(instant) {
  const ms = Math.max(0, Date.now() - Date.parse(instant));
  const [unit, unitMs] = UNITS.find(([, length]) => ms >= length) ?? UNITS.at(-1);
  return `${Math.floor(ms / unitMs)} ${unit}`;
}

setInterval(() => {
  for (const element of document.querySelectorAll(".age")) element.textContent = formatAge(element.dateTime);
}, AGE_INTERVAL_MS);
