import { getSelectedClinicId, getTimeZone } from "./clinics.js";
import { getElement } from "./dom.js";
import { formatMinute } from "./format.js";
import { toInstant, toLocalInput } from "./local-time.js";

const FILTER_NAMES = ["from", "to", "day", "by", "type", "actor"];

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
  const names = [...FILTER_NAMES, "view"];
  const rest = Object.fromEntries(names.map((name) => [name, parameters.get(name) ?? ""]));
  return kind && { kind, id: parameters.get(kind), ...rest };
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
    from && `${time} from ${formatMinute(from, getZone())}`,
    to && `${time} before ${formatMinute(to, getZone())}`,
    type && `type ${type}`,
    actor && `done by ${actor}`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** Fields with a time in the selected clinic's time zone. A search has instants, because the selection can change. */
const TIME_FIELDS = ["from", "to"];

const getZone = () => getTimeZone(getSelectedClinicId()) ?? "UTC";

/**
 * Initializes the form that searches by id.
 *
 * @param {(search: object) => void} onSubmit called when the user submits a search
 */
export function initIdForm(onSubmit) {
  const kind = getElement("kind");
  const showPlaceholder = () => {
    const isStream = kind.value === "stream";
    getElement("subject-label").textContent = isStream ? "Name of the stream" : "Id";
    getElement("subject").placeholder = `${isStream ? "appointment-" : ""}00000000-0000-0000-0000-000000000000`;
  };
  kind.addEventListener("change", showPlaceholder);
  onSubmitOf("search-form", () => {
    const readFilter = (name) =>
      TIME_FIELDS.includes(name) && readField(name) ? toInstant(readField(name), getZone()) : readField(name);
    const filters = Object.fromEntries(FILTER_NAMES.map((name) => [name, readFilter(name)]));
    onSubmit({ kind: kind.value, id: readField("subject"), ...filters });
  });
  return {
    /** Fills the form with a search. */
    show(search) {
      getElement("search-form").reset();
      getElement("filters").open = describeFilters(search) !== "";
      if (CLINIC_KINDS.includes(search.kind)) return showPlaceholder();
      kind.value = search.kind;
      getElement("subject").value = search.id;
      for (const name of FILTER_NAMES) {
        const value = search[name] || (name === "by" ? "occurred" : "");
        const isTime = TIME_FIELDS.includes(name) && value;
        getElement(name).value = isTime ? toLocalInput(Date.parse(value), getZone()) : value;
      }
      showPlaceholder();
    },
  };
}

/**
 * Initializes the forms that search without an id.
 *
 * @param {(fields: object) => void} listeners.onName
 * @param {(fields: object) => void} listeners.onAppointment
 * @param {(fields: object) => void} listeners.onActor
 */
export function initFinderForms({ onName, onAppointment, onActor }) {
  onSubmitOf("name-form", ({ submitter }) => {
    const isEverywhere = submitter?.id !== "search-clinic";
    onName({ name: readField("name"), kind: readField("name-kind"), isEverywhere });
  });
  onSubmitOf("appointment-form", () => {
    onAppointment({ day: readField("appointment-day"), time: readField("appointment-time") });
  });
  onSubmitOf("actor-form", () => onActor({ actor: readField("actor-id"), day: readField("actor-day") }));
}

/** Empties all fields that can contain names. */
export function clearFinderForms() {
  for (const id of ["name-form", "appointment-form", "actor-form", "search-form", "export-form", "state-form"])
    getElement(id).reset();
}

export function onSubmitOf(formId, listener) {
  getElement(formId).addEventListener("submit", (event) => {
    event.preventDefault();
    listener(event);
  });
}

function readField(id) {
  return getElement(id).value.trim();
}
