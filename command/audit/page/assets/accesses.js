import { fetchLines } from "./api.js";
import { getSelectedClinicId, getTimeZone } from "./clinics.js";
import { createEmptyText, getElement, h } from "./dom.js";
import { toInstant } from "./local-time.js";
import { createNamedId, rememberName } from "./names.js";
import { formatName, splitStreamName } from "./text.js";
import { createLocalTime, createTime } from "./times.js";

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
  latest: "latest events",
  search: "search by name",
  appointments: "appointments of a day",
  names: "names of records",
  accesses: "list of accesses",
  disclose: "disclosure",
};

/** Parameters in words, where the words differ from the name of the parameter. */
const PARAMETER_TEXTS = { stream: "", limit: "at most", after: "after position", before: "before position" };

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
  const subject = { [kind === "latest" ? "clinic" : kind]: id };
  body.replaceChildren(createEmptyText("Loading …"));
  const accesses = [];
  for await (const access of fetchLines("accesses", { ...subject, ...getRange(period) }, signal)) accesses.push(access);
  if (signal.aborted) return;
  if (accesses.length === 0) return body.replaceChildren(createEmptyText("No recorded access in this period."));
  const items = accesses.reverse().map(createItem(getSelectedClinicId()));
  body.replaceChildren(
    h("p", { class: "summary" }, ...describeActors(accesses)),
    h("ul", { class: "accesses", "aria-label": "Accesses" }, ...items),
  );
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
