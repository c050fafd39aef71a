import { fetchJson, ServiceError } from "./api.js";
import { getElement, h } from "./dom.js";
import { shortenId } from "./format.js";

/** Key of the selected clinic's id in sessionStorage, so that the selection survives a reload of the tab. */
const STORAGE_KEY = "audit-clinic";

/** The clinics in the auditor's scope, by id. */
const clinics = new Map();

/** True if the auditor may see more clinics than the selection contains. */
let isIncomplete = false;

/**
 * Loads the clinics in the auditor's scope and fills the selection. If the read models are unavailable, the selection
 * contains only the ids in the auditor's scope.
 *
 * @param {string[] | null} scope ids of the auditor's clinics; null for all clinics
 * @returns an explanation if the names are unavailable; otherwise the empty string
 */
export async function loadClinics(scope) {
  clinics.clear();
  isIncomplete = false;
  let problem = "";
  try {
    const { clinics: list, isComplete } = await fetchJson("clinics", {});
    for (const clinic of list) clinics.set(clinic.id, clinic);
    isIncomplete = !isComplete;
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status !== 503) throw error;
    problem = error.message;
  }
  for (const id of scope ?? []) if (!clinics.has(id)) clinics.set(id, { id });
  const options = [...clinics.values()].map(({ id, name, environment }) => {
    const sandboxNote = environment === "sandbox" ? " (sandbox)" : "";
    return h("option", { value: id }, name === undefined ? id : `${name}${sandboxNote} · ${shortenId(id)}`);
  });
  getElement("clinic").replaceChildren(...options);
  getElement("clinic").disabled = options.length === 0;
  selectClinic(sessionStorage.getItem(STORAGE_KEY));
  return problem;
}

/**
 * Initializes the selection of a clinic. The arrow keys select each clinic on the way, and each request is a recorded
 * access, so a clinic that was selected with the keyboard is shown when the user presses Enter or leaves the field.
 *
 * @param {(id: string) => void} onSelect called with the id of the selected clinic
 */
export function initClinicSelect(onSelect) {
  const select = getElement("clinic");
  let isKeyboard = false;
  let pendingId;
  const showPending = () => {
    if (pendingId === select.value) onSelect(pendingId);
    pendingId = undefined;
  };
  select.addEventListener("pointerdown", () => {
    isKeyboard = false;
  });
  select.addEventListener("keydown", ({ key }) => {
    isKeyboard = key !== "Enter";
    if (key === "Enter") showPending();
  });
  select.addEventListener("change", () => {
    pendingId = select.value;
    if (!isKeyboard) showPending();
  });
  select.addEventListener("blur", showPending);
}

/** Removes all clinics. */
export function clearClinics() {
  clinics.clear();
  sessionStorage.removeItem(STORAGE_KEY);
  getElement("clinic").replaceChildren();
  getElement("clinic-hint").textContent = "";
}

/** Returns the id of the selected clinic; the empty string if no clinic is selected. */
export function getSelectedClinicId() {
  return getElement("clinic").value;
}

/** Selects a clinic, if it is in the list, and stores the selection in this tab. */
export function selectClinic(id) {
  if (clinics.has(id)) getElement("clinic").value = id;
  sessionStorage.setItem(STORAGE_KEY, getSelectedClinicId());
  showSelectedClinic();
}

export function countClinics() {
  return clinics.size;
}

/** Returns the name of a clinic, or its id if the name is unknown. */
export function getClinicName(id) {
  return clinics.get(id)?.name ?? id;
}

/** Returns the time zone of a clinic; undefined if it is unknown. */
export function getTimeZone(clinicId) {
  return clinics.get(clinicId)?.timezone;
}

function showSelectedClinic() {
  const id = getSelectedClinicId();
  const { timezone } = clinics.get(id) ?? {};
  const zoneText = timezone === undefined ? "Time zone unknown: times are in UTC." : `Time zone ${timezone}.`;
  const listText = isIncomplete ? ` The list has only the first ${clinics.size} clinics. Find others by id.` : "";
  const enterText = clinics.size > 1 ? " Press Enter to show a clinic that you have selected with the keyboard." : "";
  getElement("clinic-hint").textContent =
    id === "" ? "No clinic to select." : `${zoneText} Id ${id}.${enterText}${listText}`;
  for (const label of document.querySelectorAll("[data-zone]")) label.textContent = timezone ?? "clinic’s time zone";
}
