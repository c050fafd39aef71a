import { getTimeZone } from "./clinics.js";
import { getElement, h } from "./dom.js";
import { formatLocal, formatUtc } from "./format.js";

/**
 * Creates an element with a time in the clinic's time zone and in UTC. If the time zone is unknown, shows only UTC.
 *
 * @param {string | null} clinicId
 */
export function createTime(instant, clinicId) {
  if (!instant) return h("span", {}, "unknown");
  const timeZone = getTimeZone(clinicId);
  const utc = formatUtc(instant);
  if (!timeZone || timeZone === "UTC") return h("time", { datetime: instant }, utc);
  const local = h("span", { class: "local", title: timeZone }, formatLocal(instant, timeZone));
  return h("time", { datetime: instant }, local, " ", h("span", { class: "utc" }, utc));
}

/** Creates an element with a time in the clinic's time zone. The time in UTC is its tooltip. */
export function createLocalTime(instant, clinicId) {
  return h(
    "time",
    { datetime: instant, title: formatUtc(instant) },
    formatLocal(instant, getTimeZone(clinicId) ?? "UTC"),
  );
}

/** Tells a screen reader what a click has changed. */
export function announce(text) {
  getElement("announcement").textContent = text;
}
