import { getTimeZone, readInstant } from "./clinics.js";
import { getElement } from "./dom.js";
import { formatMinute } from "./format.js";
import { toLocalInput } from "./local-time.js";

/** Ids of the filter fields in the form that searches by id. The filters have the same names in a URL. */
const FILTER_NAMES = ["from", "to", "day", "by", "type", "actor"];

/**
 * Filter fields with a local time of the selected clinic. A search stores instants, because the selection can change.
 */
const TIME_FIELDS = ["from", "to"];

/** Kinds of searches that the form does not offer. Their subject is a clinic. */
const CLINIC_KINDS = ["latest"];

/**
 * Reads the search from the URL's fragment. The fragment contains only ids and filters, no names of people. `view` is
 * the tab to show. Returns undefined if the fragment contains no search.
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

/** Describes the filters of a search. Returns an empty string if there are none. */
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

export function readField(id) {
  return getElement(id).value.trim();
}

/** Returns the search in the form that searches by id. */
export function readForm() {
  const filters = FILTER_NAMES.map((name) => [name, TIME_FIELDS.includes(name) ? readInstant(name) : readField(name)]);
  return { kind: readField("kind"), id: readField("subject"), ...Object.fromEntries(filters) };
}

/** Fills the form for searches by id with the values of a search. */
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

/** Sets the label and the placeholder of the subject field. */
export function showPlaceholder() {
  const isStream = readField("kind") === "stream";
  getElement("subject-label").textContent = isStream ? "Name of the stream" : "Id";
  getElement("subject").placeholder = `${isStream ? "appointment-" : ""}00000000-0000-0000-0000-000000000000`;
}
