import { fetchJson, fetchList } from "./api.js";
import { getSelectedClinicId, getTimeZone } from "./clinics.js";
import { createEmptyText, getElement, h } from "./dom.js";
import { toInstant } from "./local-time.js";
import { createNamedId, rememberName } from "./names.js";
import { formatName, splitStreamName } from "./text.js";
import { announce, createLocalTime, createTime } from "./times.js";

const DAY_MS = 86_400_000;

/** Actions in words, where the words differ from the name of the action. */
const ACTION_TEXTS = {
  "sign-in": "signed in",
  state: "state of a record",
  diff: "changes of a record",
  replay: "history of a record",
  deliveries: "webhook deliveries",
  "prove-inclusion": "proof for an event",
  clinics: "list of clinics",
  search: "search by name",
  appointments: "appointments of a day",
  accesses: "list of accesses",
  disclose: "disclosure",
  overlaps: "overlaps among reservations",
  "clinic-state": "state of the clinic",
  readers: "list of readers and accesses",
};

/** Parameters in words, where the words differ from the name of the parameter. */
const PARAMETER_TEXTS = { stream: "", limit: "at most", after: "continued after position" };

let controller = new AbortController();

/**
 * Initializes the fields that select the period.
 *
 * @param {() => void} onChange called when the user selects another period
 */
export function initAccesses(onChange) {
  getElement("access-period").addEventListener("change", onChange);
  getElement("access-day").addEventListener("change", ({ target }) => {
    // While the year is typed, the field has years such as 0020.
    if (!target.checkValidity()) return;
    getElement("access-period").value = target.value === "" ? "30" : "day";
    onChange();
  });
}

/**
 * Shows who read or exported the records of the search's subject in a period, the newest access first.
 *
 * @param {{ kind: string, id: string }} search
 * @param {AbortSignal} searchSignal
 */
export async function showAccesses({ kind, id }, searchSignal) {
  controller.abort();
  controller = new AbortController();
  const signal = AbortSignal.any([searchSignal, controller.signal]);
  const body = getElement("accesses-body");
  const period = getElement("access-period").value;
  if (period !== "day") getElement("access-day").value = "";
  else if (getElement("access-day").value === "") return body.replaceChildren(createEmptyText("Select a day."));
  const subjectKind = kind === "latest" ? "clinic" : kind;
  const query = { [subjectKind]: id, ...getRange(period) };
  body.replaceChildren(createEmptyText("Loading …"));
  const { readers, accesses, isComplete, note, problems } = READER_KINDS.includes(subjectKind)
    ? await fetchJson("readers", { ...query, names: "true" }, signal)
    : await readAccesses(query, signal);
  const clinicId = getSelectedClinicId();
  const noneText = "No recorded access in this period.";
  body.replaceChildren(
    ...(readers ? [h("h3", {}, "Who could read"), ...createReaders(readers, clinicId), h("h3", {}, "Who did")] : []),
    h("p", { class: "summary" }, ...(accesses.length === 0 ? [noneText] : describeActors(accesses))),
    h("ul", { class: "accesses", "aria-label": "Accesses" }, ...accesses.map(createItem(clinicId))),
    isComplete
      ? ""
      : h("p", { class: "hint" }, `These are the latest ${accesses.length}. Select another period for others.`),
    ...(problems ?? []).map((problem) => h("p", { class: "alert" }, `Not considered: ${problem}`)),
    h("p", { class: "notice", id: "accesses-limit" }, note ?? "Reads in the portal and by partners are not recorded."),
  );
  announce(`${accesses.length} accesses`);
}

/** Subjects of which the log says who could read them. */
const READER_KINDS = ["clinic", "customer", "animal"];

async function readAccesses(query, signal) {
  const { items, end } = await fetchList("accesses", { ...query, order: "newest", limit: 500 }, signal);
  return { accesses: items, isComplete: end.next === null };
}

function createReaders(readers, clinicId) {
  if (readers.length === 0) return [createEmptyText("Nobody could read it in this period.")];
  const items = readers.map(({ kind, id, name, access, from, to }) => {
    if (name !== null) rememberName(id, name);
    const end = to === null ? "now" : createLocalTime(to, clinicId);
    const what = h("span", {}, h("strong", {}, kind), " ", createNamedId(id), ` ${access.join("; ")}`);
    return h(
      "li",
      { class: "access" },
      what,
      h("span", { class: "soft" }, createLocalTime(from, clinicId), " to ", end),
    );
  });
  return [h("ul", { class: "accesses", "aria-label": "Readers" }, ...items)];
}

/** Returns the range of times of a period, which is a number of days, `all`, or `day` for the day in the form. */
function getRange(period) {
  if (period === "all") return {};
  if (period !== "day") return { from: new Date(Date.now() - Number(period) * DAY_MS).toISOString() };
  const day = getElement("access-day").value;
  const nextDay = new Date(Date.parse(day) + DAY_MS).toISOString().slice(0, 10);
  const timeZone = getTimeZone(getSelectedClinicId()) ?? "UTC";
  return { from: toInstant(day, timeZone), to: toInstant(nextDay, timeZone) };
}

/** Describes who made the accesses, and how many each of them made. */
function describeActors(accesses) {
  const actors = new Map();
  for (const { actor, auditorName } of accesses) {
    const key = actor ? `${actor.type}:${actor.id}` : "unknown";
    actors.set(key, { actor, auditorName, count: (actors.get(key)?.count ?? 0) + 1 });
  }
  const parts = [...actors.values()].flatMap(({ actor, auditorName, count }, index) => [
    index === 0 ? "" : ", ",
    ...describeActor(actor, auditorName),
    ` (${count})`,
  ]);
  return [h("strong", {}, actors.size === 1 ? "1 reader: " : `${actors.size} readers: `), ...parts];
}

function describeActor(actor, auditorName) {
  if (!actor) return ["unknown"];
  if (auditorName !== null) rememberName(actor.id, auditorName);
  return [`${actor.type} `, createNamedId(actor.id)];
}

/** Creates the function that creates the list item of an access. Times are in the clinic's time zone. */
function createItem(clinicId) {
  return ({ at, actor, auditorName, action, relation, asked, found }) => {
    const who = describeActor(actor, auditorName);
    const possible = relation === "possible" ? h("span", { class: "tag" }, "possibly included") : "";
    return h(
      "li",
      { class: "access" },
      h(
        "span",
        {},
        h("strong", {}, ACTION_TEXTS[action] ?? action),
        " by ",
        ...who,
        actor?.note ? ` (${actor.note}) ` : " ",
        possible,
      ),
      h("span", { class: "soft" }, createTime(at, clinicId)),
      h("span", {}, ...describeQuery(asked, found, clinicId)),
    );
  };
}

function describeQuery(asked, found, clinicId) {
  if (asked === null) return ["also concerned other clinics"];
  const parts = Object.entries(asked).flatMap(([name, value]) => [
    `${PARAMETER_TEXTS[name] ?? name} `.trimStart(),
    ...describeParameter(name, String(value), clinicId),
    " ",
  ]);
  if (found.length > 0) parts.push(`${found.length} ${found.length === 1 ? "record" : "records"} found`);
  return parts;
}

function describeParameter(name, value, clinicId) {
  // These parameters can also be a revision or a position.
  if (["from", "to", "at"].includes(name) && /^\d{4}-\d\d-\d\dT/.test(value))
    return [createLocalTime(new Date(value).toISOString(), clinicId)];
  if (name !== "stream") return [createNamedId(value)];
  const [category, id] = splitStreamName(value);
  return [`${formatName(category)} `, createNamedId(id)];
}
