import { getTimeZone, readInstant } from "./clinics.js";
import { getElement } from "./dom.js";
import { formatMinute } from "./format.js";
import { toLocalInput } from "./local-time.js";

/** Fields of the form that searches by id, which are also the names of the filters in a URL. */
const FILTER_NAMES = ["from", "to", "day", "by", "type", "actor"];

/** Fields with a time in the selected clinic's time zone. A search has instants, because the selection can change. */
const TIME_FIELDS = ["from", "to"];

/** Searches whose subject is the selected clinic, besides the kinds in the form. */
const CLINIC_KINDS = ["latest"];

/**
 * Reads the search from the URL's fragment. The search is stored in the fragment, so that the Back button works. A
 * search is not secret, because it contains only ids and filters, and no names of people. `view` is the tab to show.
 * Returns undefined if the fragment contains no search.
 */
export function readSearchFromUrl() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const kinds = [...CLINIC_KINDS, ...[...getElement("kind").options].map(({ value }) => value)];
  const kind = kinds.find((name) => parameters.get(name));
  const rest = [...FILTER_NAMES, "view"].map((name) => [name, parameters.get(name) ?? ""]);
  return kind && { kind, id: parameters.get(kind), ...Object.fromEntries(rest) };
}

/** Returns the URL fragment of a search. */
export function toUrlFragment({ kind, id, ...rest }) {
  const changedFields = Object.entries(rest).filter(([, value]) => value && value !== "occurred");
  return `#${new URLSearchParams([[kind, id], ...changedFields])}`;
}

/** Returns the query parameters of a search for the operation `events`. */
export function toQueryParameters({ kind, id, from, to, day, by, type, actor }) {
  return { [kind]: id, from, to, day, by, type: type?.replaceAll(" ", ""), actor };
}

/** Describes the filters of a search; the empty string without filters. */
export function describeFilters({ from, to, day, by, type, actor }) {
  const time = by === "stored" ? "stored" : "occurred";
  const parts = [
    day && `on ${day}`,
    from && `${time} from ${formatMinute(from, getTimeZone())}`,
    to && `${time} before ${formatMinute(to, getTimeZone())}`,
    type && `type ${type}`,
    actor && `done by ${actor}`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** Returns the text in a field of a form. */
export function readField(id) {
  return getElement(id).value.trim();
}

/** Returns the search in the form that searches by id. */
export function readForm() {
  const filters = FILTER_NAMES.map((name) => [name, TIME_FIELDS.includes(name) ? readInstant(name) : readField(name)]);
  return { kind: readField("kind"), id: readField("subject"), ...Object.fromEntries(filters) };
}

/** Fills the form that searches by id with a search. */
export function fillForm(search) {
  getElement("search-form").reset();
  getElement("filters").open = describeFilters(search) !== "";
  if (!CLINIC_KINDS.includes(search.kind)) {
    getElement("kind").value = search.kind;
    getElement("subject").value = search.id;
    for (const name of FILTER_NAMES.filter((name) => search[name])) {
      const isTime = TIME_FIELDS.includes(name);
      getElement(name).value = isTime ? toLocalInput(Date.parse(search[name]), getTimeZone()) : search[name];
    }
  }
  showPlaceholder();
}

/** Shows what identifies a subject of the selected kind. */
export function showPlaceholder() {
  const isStream = readField("kind") === "stream";
  getElement("subject-label").textContent = isStream ? "Name of the stream" : "Id";
  getElement("subject").placeholder = `${isStream ? "appointment-" : ""}00000000-0000-0000-0000-000000000000`;
}
