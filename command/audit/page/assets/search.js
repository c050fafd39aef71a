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

/** The question stands behind the # of the address, so that going back works; ids are no secrets. */
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

/** The address of a question. */
export function addressOf({ kind, id, ...more }) {
  const narrow = Object.entries(more).filter(([, value]) => value && value !== "occurred");
  return `#${new URLSearchParams([[kind, id], ...narrow])}`;
}

/** What the service is asked. */
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

/** A local date and time, as the browser's field has it, is meant as UTC. */
function utc(text) {
  return `${text.length === 16 ? `${text}:00` : text}Z`;
}

/** @param {(question: object) => void} onQuestion called when somebody asks */
export function startSearch(onQuestion) {
  const kind = byId("kind");
  const label = () => {
    const isStream = kind.value === "stream";
    byId("subject-label").textContent = isStream ? "Its name" : "Its id";
    byId("subject").placeholder = `${isStream ? "appointment-" : ""}00000000-0000-0000-0000-000000000000`;
  };
  kind.addEventListener("change", label);
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const narrow = Object.fromEntries(NARROW.map((name) => [name, byId(name).value.trim()]));
    onQuestion({ kind: kind.value, id: byId("subject").value.trim(), ...narrow });
  });
  return {
    /** Shows a question in the form. */
    show(question) {
      kind.value = question.kind;
      byId("subject").value = question.id;
      for (const name of NARROW) byId(name).value = question[name] || (name === "by" ? "occurred" : "");
      label();
    },
  };
}
