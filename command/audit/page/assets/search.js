import { getElement } from "./dom.js";

const FILTER_NAMES = ["from", "to", "by", "type", "actor"];

/**
 * Reads the search from the URL's fragment. The search is stored in the fragment, so that the Back button works. A
 * search is not secret, because it contains only ids and filters. Returns undefined if the fragment contains no search.
 */
export function readSearchFromUrl() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const kinds = [...getElement("kind").options].map(({ value }) => value);
  const kind = kinds.find((name) => parameters.get(name));
  const filters = Object.fromEntries(FILTER_NAMES.map((name) => [name, parameters.get(name) ?? ""]));
  return kind && { kind, id: parameters.get(kind), ...filters };
}

/** Returns the URL fragment of a search. */
export function toUrlFragment({ kind, id, ...filters }) {
  const changedFilters = Object.entries(filters).filter(([, value]) => value && value !== "occurred");
  return `#${new URLSearchParams([[kind, id], ...changedFilters])}`;
}

/** Returns the query parameters of a search for the operation `events`. */
export function toQueryParameters({ kind, id, from, to, by, type, actor }) {
  return {
    [kind]: id,
    from: from && toUtc(from),
    to: to && toUtc(to),
    by,
    type: type?.replaceAll(" ", ""),
    actor,
  };
}

/** Converts the value of a date-time field, which has no offset, to a date-time in UTC. */
function toUtc(text) {
  return `${text.length === 16 ? `${text}:00` : text}Z`;
}

/**
 * Initializes the search form.
 *
 * @param {(search: object) => void} onSubmit called when the user submits a search
 */
export function initSearchForm(onSubmit) {
  const kind = getElement("kind");
  const showPlaceholder = () => {
    const isStream = kind.value === "stream";
    getElement("subject-label").textContent = isStream ? "Name" : "Id";
    getElement("subject").placeholder = `${isStream ? "appointment-" : ""}00000000-0000-0000-0000-000000000000`;
  };
  kind.addEventListener("change", showPlaceholder);
  getElement("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const filters = Object.fromEntries(FILTER_NAMES.map((name) => [name, getElement(name).value.trim()]));
    onSubmit({ kind: kind.value, id: getElement("subject").value.trim(), ...filters });
  });
  return {
    /** Fills the form with a search. */
    show(search) {
      kind.value = search.kind;
      getElement("subject").value = search.id;
      for (const name of FILTER_NAMES) getElement(name).value = search[name] || (name === "by" ? "occurred" : "");
      showPlaceholder();
    },
  };
}
