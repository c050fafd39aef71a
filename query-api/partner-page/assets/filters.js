import { getTimeZone } from "./clinic.js";
import { getElement } from "./dom.js";
import { toInstant } from "./local-time.js";
import { changeRoute, readRoute } from "./route.js";

/** Lengths of the periods that end now. Milliseconds. */
const PERIODS_MS = { hour: 3_600_000, day: 24 * 3_600_000, week: 7 * 24 * 3_600_000 };

/** Statuses of the deliveries that a replay sends again, by the value of the status filter. */
const REPLAYED = { "": ["failed", "skipped"], failed: ["failed"], skipped: ["skipped"], delivered: ["delivered"] };

/** Time for which the service keeps finished deliveries. Milliseconds. */
const RETENTION_MS = 30 * 24 * 3_600_000;

/** Ids of the appointments that the page has listed. The filter accepts the start of such an id. */
export const knownAppointmentIds = new Set();

const form = getElement("delivery-filters");

/** The values of the form's fields by name, as the user has applied them. The URL has the same names. */
let filters = {};

/** Initializes the form with the filters. Calls the listener each time the user changes a filter. */
export function initFilters(listener) {
  const apply = () => {
    readFields();
    changeRoute(filters, { isNewEntry: false });
    listener();
  };
  form.addEventListener("change", apply);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
  });
}

/** Sets the filters to those in the URL. */
export function showFilters() {
  const route = readRoute();
  for (const field of form.elements) {
    field.value = route[field.name] ?? "";
    if (field.selectedIndex === -1) field.selectedIndex = 0;
  }
  readFields();
}

/** Sets the filters, and removes all others. */
export function setFilters(newFilters) {
  const none = [...form.elements].map(({ name }) => [name, undefined]);
  changeRoute({ ...Object.fromEntries(none), ...newFilters });
  showFilters();
}

export function isFiltered() {
  return Object.entries(filters).some(([name, value]) => name !== "limit" && value !== "");
}

/** Returns the filters as query parameters. */
export function toQuery() {
  const { status, type, appointmentId, period, toTime, limit } = filters;
  const to = period === "range" && toTime ? toInstant(toTime, getTimeZone()) : undefined;
  return { status, type, appointmentId, from: getStart(), to, limit: limit || form.elements.limit.options[0].text };
}

/** Returns the start of the period; undefined for all deliveries. */
function getStart() {
  const { period, fromTime } = filters;
  if (period in PERIODS_MS) return new Date(Date.now() - PERIODS_MS[period]).toISOString();
  return period === "range" && fromTime ? toInstant(fromTime, getTimeZone()) : undefined;
}

/**
 * Returns the filters for a replay, and the title of its button. Without a selected start, includes all deliveries that
 * the service keeps.
 */
export function getReplayFilters() {
  const { status, type, appointmentId, from = new Date(Date.now() - RETENTION_MS).toISOString(), to } = toQuery();
  const title = `Replay ${status || "failed"} deliveries`;
  return { statuses: REPLAYED[status] ?? [], type, appointmentId, from, to, title };
}

/** Reads the filters from the form. Completes the start of an appointment id if it is unique. */
function readFields() {
  const field = form.elements.appointmentId;
  const start = field.value.trim().toLowerCase();
  const [id, ...others] = start === "" ? [] : [...knownAppointmentIds].filter((known) => known.startsWith(start));
  if (id && others.length === 0) field.value = id;
  filters = Object.fromEntries([...form.elements].map(({ name, value }) => [name, value.trim()]));
  for (const part of form.querySelectorAll("[data-range]")) part.hidden = filters.period !== "range";
}
