import { announce, onSubmit, showProgress } from "./actions.js";
import { fetchJson } from "./api.js";
import { createLocalTime, getSelectedClinicId, readInstant } from "./clinics.js";
import { createEmptyText, createFactList, getElement, h } from "./dom.js";
import { formatCount } from "./format.js";
import { createNamedId, rememberName } from "./names.js";
import { describeActor } from "./sentences.js";

/** Initializes the form that shows the state of the selected clinic at a given time. */
export function initClinicState() {
  onSubmit("state-form", "search-alert", async () => {
    const clinic = getSelectedClinicId();
    const query = { clinic, at: readInstant("state-at"), names: "true" };
    const load = () => fetchJson("clinic-state", query);
    const state = await showProgress(getElement("state-body"), createEmptyText("Loading …"), load);
    if (clinic === getSelectedClinicId()) showState(state, clinic);
  });
}

/** Removes the displayed clinic state from the page. */
export function clearClinicState() {
  getElement("state-body").replaceChildren();
}

function showState({ at, clinic, branches, staff, resources, installations, changes, isComplete, problems }, clinicId) {
  for (const { id, name } of [...branches, ...resources]) rememberName(id, name);
  const inBranches = (ids) => (ids?.length ? ids.map((id) => createNamedId(id)) : ["all branches"]);
  const join = (...parts) => parts.filter(Boolean).flatMap((part, index) => (index === 0 ? part : [", ", part]));
  const createPart = (title, records, describe) => {
    const items = records.map((record) => h("li", {}, ...describe(record)));
    return [h("h3", {}, title), items.length === 0 ? createEmptyText("None.") : h("ul", {}, ...items)];
  };
  const subscription = clinic?.subscription;
  const facts = clinic && [
    ["Name", clinic.registration.name],
    ["Status", clinic.status],
    ["Subscription", subscription ? `${subscription.plan}, ${subscription.status}` : "none"],
  ];
  getElement("state-body").replaceChildren(
    h("p", {}, "The clinic at ", createLocalTime(at, clinicId)),
    facts ? createFactList(facts) : createEmptyText("The clinic was not yet registered."),
    ...createPart("Branches", branches, ({ name, city, isMain }) => join(name, city, isMain && "main branch")),
    ...createPart("Staff with access", staff, ({ userId, name, role, permissions, branchIds }) =>
      join(name ?? createNamedId(userId), role, ...permissions, ...inBranches(branchIds)),
    ),
    ...createPart("Resources", resources, ({ name, type, branchId }) => join(name, type, ...inBranches([branchId]))),
    ...createPart("Installations", installations, ({ applicationId, name, scopes, animalAccess, branchIds }) =>
      join(name ?? createNamedId(applicationId), ...scopes, `${animalAccess} animals`, ...inBranches(branchIds)),
    ),
    ...createPart(
      `${isComplete ? "Changes" : `The first ${changes.length} changes`} of the clinic, its staff, resources and installations since`,
      changes,
      ({ at: time, text, actor }) => [createLocalTime(time, clinicId), ` ${text} `, ...describeActor(actor)],
    ),
    ...problems.map((problem) => h("p", { class: "alert" }, `Not included: ${problem}`)),
  );
  announce(`${formatCount(changes.length, "change")} since then`);
}
