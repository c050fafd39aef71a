import { fetchLines } from "./api.js";
import { createEmptyText, getElement, h } from "./dom.js";
import { createNamedId, rememberName } from "./names.js";
import { formatName, splitStreamName } from "./text.js";
import { createTime } from "./times.js";

const DAY_MS = 86_400_000;

/**
 * Shows who read or exported the records of a clinic in the last days, the newest access first.
 *
 * @param {string} clinicId
 * @param {AbortSignal} signal
 */
export async function showAccesses(clinicId, signal) {
  const body = getElement("accesses-body");
  if (clinicId === "") return body.replaceChildren(createEmptyText("Select a clinic."));
  const days = Number(getElement("access-days").value);
  const from = days === 0 ? undefined : new Date(Date.now() - days * DAY_MS).toISOString();
  body.replaceChildren(createEmptyText("Loading …"));
  const accesses = [];
  for await (const access of fetchLines("accesses", { clinic: clinicId, from }, signal)) accesses.push(access);
  if (signal.aborted) return;
  body.replaceChildren(
    accesses.length === 0
      ? createEmptyText("No recorded access in this period.")
      : h("ul", { class: "accesses", "aria-label": "Accesses" }, ...accesses.reverse().map(createItem(clinicId))),
  );
}

/** Creates the function that creates the list item of an access. Times are in the clinic's time zone. */
function createItem(clinicId) {
  return ({ at, actor, auditorName, action, relation, asked, found }) => {
    if (actor && auditorName !== null) rememberName(actor.id, auditorName);
    const who = actor ? [`${actor.type} `, createNamedId(actor.id)] : ["unknown"];
    const possible = relation === "possible" ? h("span", { class: "tag" }, "possible") : "";
    return h(
      "li",
      { class: "access" },
      h("span", {}, h("strong", {}, action), " by ", ...who, actor?.note ? ` (${actor.note}) ` : " ", possible),
      h("span", { class: "soft" }, createTime(at, clinicId)),
      h("span", {}, ...describeQuery(asked, found)),
    );
  };
}

function describeQuery(asked, found) {
  if (asked === null) return ["also concerned other clinics"];
  const parts = Object.entries(asked).flatMap(([name, value]) => [`${name} `, ...describeParameter(name, value), " "]);
  if (found.length > 0) parts.push(`→ ${found.length} ${found.length === 1 ? "record" : "records"}`);
  return parts;
}

function describeParameter(name, value) {
  if (name !== "stream") return [createNamedId(value)];
  const [category, id] = splitStreamName(String(value));
  return [`${formatName(category)} `, createNamedId(id)];
}
