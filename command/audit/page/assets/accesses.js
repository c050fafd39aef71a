import { announce } from "./actions.js";
import { fetchJson, fetchList } from "./api.js";
import { createLocalTime, createTime, getSelectedClinicId, getTimeZone } from "./clinics.js";
import { createEmptyText, createHint, createTag, getElement, h } from "./dom.js";
import { formatCount } from "./format.js";
import { toInstant } from "./local-time.js";
import { createNamedId, rememberName } from "./names.js";
import { formatName, splitStreamName } from "./text.js";

const DAY_MS = 86_400_000;

/** Display texts of actions. An action without a text is displayed by its name. */
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

/** Display texts of query parameters. A parameter without a text is displayed by its name. */
const PARAMETER_TEXTS = { stream: "", limit: "at most", after: "continued after position" };

/** Initializes the fields that select the period. Calls `onChange` each time the user selects another period. */
export function initAccesses(onChange) {
  getElement("access-period").addEventListener("change", onChange);
  getElement("access-day").addEventListener("change", ({ target }) => {
    // While the year is typed, the field has years such as 0020.
    if (!target.checkValidity()) return;
    getElement("access-period").value = target.value === "" ? "30" : "day";
    onChange();
  });
}

/** Kinds of subjects for which the operation `readers` is available. */
const READER_KINDS = ["clinic", "customer", "animal"];

/**
 * Shows who read or exported the subject's records in the selected period, newest access first. For some kinds of
 * subjects, also shows who could read the records.
 */
export async function showAccesses({ kind, id }, signal) {
  const body = getElement("accesses-body");
  const period = getElement("access-period").value;
  if (period !== "day") getElement("access-day").value = "";
  else if (getElement("access-day").value === "") return body.replaceChildren(createEmptyText("Select a day."));
  const subjectKind = kind === "latest" ? "clinic" : kind;
  const query = { [subjectKind]: id, ...getRange(period) };
  const { readers, accesses, isComplete, note, problems } = READER_KINDS.includes(subjectKind)
    ? await fetchJson("readers", { ...query, names: "true" }, signal)
    : await readAccesses(query, signal);
  const clinicId = getSelectedClinicId();
  const limitText = `These are the latest ${accesses.length}. Select another period for others.`;
  body.replaceChildren(
    ...(readers ? [h("h3", {}, "Who could read"), createReaders(readers, clinicId), h("h3", {}, "Who did")] : []),
    h("p", { class: "notice", id: "accesses-limit" }, note ?? "Reads in the portal and by partners are not recorded."),
    h("p", { class: "summary" }, ...describeActors(accesses)),
    createList(
      "Accesses",
      accesses.map((access) => describeAccess(access, clinicId)),
    ),
    isComplete ? "" : createHint(limitText),
    ...(problems ?? []).map((problem) => h("p", { class: "alert" }, `Not considered: ${problem}`)),
  );
  announce(formatCount(accesses.length, "access", "accesses"));
}

async function readAccesses(query, signal) {
  const { items, end } = await fetchList("accesses", { ...query, order: "newest", limit: 500 }, signal);
  return { accesses: items, isComplete: end.next === null };
}

/** @param {(Node | string)[][][]} items the lines of each item: who and what, when, and details */
function createList(label, items) {
  const toElement = ([what, when, details = []]) =>
    h("li", { class: "access" }, h("div", {}, ...what), h("div", { class: "soft" }, ...when), h("div", {}, ...details));
  return h("ul", { class: "accesses", "aria-label": label }, ...items.map(toElement));
}

function createReaders(readers, clinicId) {
  if (readers.length === 0) return createEmptyText("Nobody could read it in this period.");
  const items = readers.map(({ kind, id, name, access, from, to }) => {
    rememberName(id, name);
    const what = [h("strong", {}, kind), " ", createNamedId(id), ` ${access.join("; ")}`];
    return [what, [createLocalTime(from, clinicId), " to ", to === null ? "now" : createLocalTime(to, clinicId)]];
  });
  return createList("Readers", items);
}

/** Returns the time range of a period: a number of days, `all`, or `day` for the day in the form. */
function getRange(period) {
  if (period === "all") return {};
  if (period !== "day") return { from: new Date(Date.now() - Number(period) * DAY_MS).toISOString() };
  const day = getElement("access-day").value;
  return { from: toInstant(day, getTimeZone()), to: toInstant(day, getTimeZone(), 1) };
}

/** Lists the actors of the accesses, each with the number of their accesses. */
function describeActors(accesses) {
  if (accesses.length === 0) return ["No recorded access in this period."];
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
  return [h("strong", {}, `${formatCount(actors.size, "reader")}: `), ...parts];
}

function describeActor(actor, auditorName) {
  if (!actor) return ["unknown"];
  rememberName(actor.id, auditorName);
  return [`${actor.type} `, createNamedId(actor.id)];
}

/** Returns the lines of an access. Times are in the clinic's time zone. */
function describeAccess({ at, actor, auditorName, action, relation, asked, found, problem }, clinicId) {
  const who = describeActor(actor, auditorName);
  const note = actor?.note ? ` (${actor.note}) ` : " ";
  const possible = relation === "possible" ? createTag("possibly included") : "";
  const what = [h("strong", {}, ACTION_TEXTS[action] ?? action), " by ", ...who, note, possible];
  return [what, [createTime(at, clinicId)], problem ? [problem] : describeQuery(asked, found, clinicId)];
}

function describeQuery(asked, found, clinicId) {
  if (asked === null) return ["also concerned other clinics"];
  const parts = Object.entries(asked).flatMap(([name, value]) => [
    `${PARAMETER_TEXTS[name] ?? name} `.trimStart(),
    ...describeParameter(name, String(value), clinicId),
    " ",
  ]);
  if (found.length > 0) parts.push(`${formatCount(found.length, "id")} in the response`);
  return parts;
}

function describeParameter(name, value, clinicId) {
  // These parameters can also be a revision or a position.
  if (["from", "to", "at"].includes(name) && /^\d{4}-\d\d-\d\dT/.test(value))
    return [createLocalTime(new Date(value).toISOString(), clinicId)];
  if (name !== "stream") return [createNamedId(value)];
  return value.split(",").flatMap((stream) => {
    const [category, id] = splitStreamName(stream);
    return [`${formatName(category)} `, createNamedId(id), " "];
  });
}
