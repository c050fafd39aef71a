import { byId } from "./dom.js";

const KINDS = [
  "appointment",
  "customer",
  "animal",
  "clinic",
  "application",
  "correlation",
  "auditor",
  "stream",
];
const NARROW = ["from", "to", "by", "type", "actor"];

/** The search is stored in the URL's fragment, so that the Back button works. Ids are not secret. */
export function questionInAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const kind = KINDS.find((name) => given.get(name));
  return (
    kind && {
      kind,
      id: given.get(kind),
      ...Object.fromEntries(NARROW.map((name) => [name, given.get(name) ?? ""])),
    }
  );
}

/** Returns the URL fragment of a search. */
export function addressOf({ kind, id, ...more }) {
  const narrow = Object.entries(more).filter(([, value]) => value && value !== "occurred");
  return `#${new URLSearchParams([[kind, id], ...narrow])}`;
}

/** Returns the query parameters of a search. */
export function queryOf({ kind, id, from, to, by, type, actor }) {
  return {
    [kind]: id,
    from: from && utc(from),
    to: to && utc(to),
    by,
    type: type?.replaceAll(" ", ""),
    actor,
  };
}

/** The browser's date-time field has no offset; its value is read as UTC. */
function utc(text) {
  return `${text.length === 16 ? `${text}:00` : text}Z`;
}

/** @param {(question: object) => void} onQuestion called when a search is submitted */
export function startSearch(onQuestion) {
  const kind = byId("kind");
  const label = () => {
    const isStream = kind.value === "stream";
    byId("subject-label").textContent = isStream ? "Name" : "Id";
    byId("subject").placeholder = `${isStream ? "appointment-" : ""}00000000-0000-0000-0000-000000000000`;
  };
  kind.addEventListener("change", label);
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const narrow = Object.fromEntries(NARROW.map((name) => [name, byId(name).value.trim()]));
    onQuestion({ kind: kind.value, id: byId("subject").value.trim(), ...narrow });
  });
  return {
    /** Fills the form with a search. */
    show(question) {
      kind.value = question.kind;
      byId("subject").value = question.id;
      for (const name of NARROW) byId(name).value = question[name] || (name === "by" ? "occurred" : "");
      label();
    },
  };
}
