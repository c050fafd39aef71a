import { fetchJson } from "./api.js";
import { getSelectedClinicId, getTimeZone } from "./clinics.js";
import { createEmptyText, createFactList, getElement, h } from "./dom.js";
import { toInstant } from "./local-time.js";
import { createNamedId, rememberName } from "./names.js";
import { onSubmitOf } from "./search.js";
import { describeActor } from "./sentences.js";
import { announce, createLocalTime } from "./times.js";

/** Initializes the form that shows the selected clinic at a time. */
export function initClinicState(onSearch, onError) {
  onSubmitOf("state-form", async () => {
    onSearch();
    clearClinicState();
    const clinic = getSelectedClinicId();
    const at = getElement("state-at").value;
    getElement("state-body").replaceChildren(createEmptyText("Loading …"));
    try {
      const instant = toInstant(at, getTimeZone(clinic) ?? "UTC");
      const state = await fetchJson("clinic-state", { clinic, at: instant, names: "true" });
      if (clinic === getSelectedClinicId()) showState(state, clinic);
    } catch (error) {
      clearClinicState();
      onError(error);
    }
  });
}

/** Removes the clinic that was shown last. */
export function clearClinicState() {
  getElement("state-body").replaceChildren();
}

function showState({ at, clinic, branches, staff, resources, installations, changes, isComplete, problems }, clinicId) {
  for (const { id, name } of [...branches, ...resources]) rememberName(id, name);
  const inBranches = (ids) => (ids?.length ? ids.map((id) => createNamedId(id)) : ["all branches"]);
  const join = (...parts) => parts.flatMap((part, index) => (index === 0 ? part : [", ", ...[part].flat()]));
  const createPart = (title, items) => [
    h("h3", {}, title),
    items.length === 0 ? createEmptyText("None.") : h("ul", {}, ...items.map((parts) => h("li", {}, ...parts))),
  ];
  const subscription = clinic?.subscription;
  const facts = clinic && [
    ["Name", clinic.registration.name],
    ["Status", clinic.status],
    ["Subscription", subscription ? `${subscription.plan}, ${subscription.status}` : "none"],
  ];
  getElement("state-body").replaceChildren(
    h("p", {}, "The clinic at ", createLocalTime(at, clinicId)),
    facts ? createFactList(facts) : createEmptyText("The clinic was not yet registered."),
    ...createPart(
      "Branches",
      branches.map(({ name, city, isMain }) => [[name, city, isMain && "main branch"].filter(Boolean).join(", ")]),
    ),
    ...createPart(
      "Staff with access",
      staff.map(({ userId, name, role, permissions, branchIds }) =>
        join([name ?? createNamedId(userId)], role, ...permissions, inBranches(branchIds)),
      ),
    ),
    ...createPart(
      "Resources",
      resources.map(({ name, type, branchId }) => join([name], type, inBranches([branchId]))),
    ),
    ...createPart(
      "Installations",
      installations.map(({ applicationId, name, scopes, animalAccess, branchIds }) =>
        join([name ?? createNamedId(applicationId)], ...scopes, `${animalAccess} animals`, inBranches(branchIds)),
      ),
    ),
    ...createPart(
      isComplete ? "Changes since" : `The first ${changes.length} changes since`,
      changes.map(({ at: time, text, actor }) => [
        createLocalTime(time, clinicId),
        ` ${text} `,
        ...describeActor(actor),
      ]),
    ),
    ...problems.map((problem) => h("p", { class: "alert" }, `Not included: ${problem}`)),
  );
  announce(`${changes.length} changes since then`);
}
