import { CLINIC_KEY, fetchJson } from "./api.js";
import { getElement, h } from "./dom.js";
import { formatLocal, formatUtc, shortenId } from "./format.js";
import { toInstant } from "./local-time.js";

/** The clinics in the auditor's scope, by id. */
const clinics = new Map();

/** True if the auditor may see more clinics than the list contains. */
let isIncomplete = false;

/**
 * Loads the clinics in the auditor's scope and fills the list of clinics. If the read models are unavailable, the list
 * contains only the ids in `scope`.
 *
 * @param {string[] | null} scope ids of the auditor's clinics; null for all clinics
 */
export async function loadClinics(scope) {
  try {
    const { clinics: list, isComplete } = await fetchJson("clinics", {});
    for (const clinic of list) clinics.set(clinic.id, clinic);
    isIncomplete = !isComplete;
  } catch (error) {
    if (error.status !== 503) throw error;
    getElement("names-alert").textContent = error.message;
  }
  for (const id of scope ?? []) if (!clinics.has(id)) clinics.set(id, { id });
  const options = [...clinics.values()].map(({ id, name, environment }) => {
    const sandboxNote = environment === "sandbox" ? " (sandbox)" : "";
    return h("option", { value: id }, name === undefined ? id : `${name}${sandboxNote} · ${shortenId(id)}`);
  });
  getElement("clinic").replaceChildren(...options);
  getElement("clinic").disabled = options.length === 0;
  selectClinic(sessionStorage.getItem(CLINIC_KEY));
}

/**
 * Initializes the list of clinics. A clinic that is selected with the keyboard is shown when the user presses Enter or
 * leaves the field. Otherwise, the arrow keys would cause a recorded access for each clinic on the way.
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

/** Returns the id of the selected clinic; the empty string if no clinic is selected. */
export function getSelectedClinicId() {
  return getElement("clinic").value;
}

/** Selects a clinic, if it is in the list, and stores the selection in this tab. */
export function selectClinic(id) {
  if (clinics.has(id)) getElement("clinic").value = id;
  sessionStorage.setItem(CLINIC_KEY, getSelectedClinicId());
  showSelectedClinic();
}

export function countClinics() {
  return clinics.size;
}

/** Returns the name of a clinic, or its id if the name is unknown. */
export function getClinicName(id) {
  return clinics.get(id)?.name ?? id;
}

/** Returns the time zone of a clinic (default: the selected clinic), or UTC if it is unknown. */
export function getTimeZone(clinicId = getSelectedClinicId()) {
  return clinics.get(clinicId)?.timezone ?? "UTC";
}

/** Reads a local time or day of the selected clinic from a field, as an instant; undefined if the field is empty. */
export function readInstant(fieldId) {
  const { value } = getElement(fieldId);
  return value === "" ? undefined : toInstant(value, getTimeZone());
}

/** Creates an element with a time in the clinic's time zone and in UTC. The text in an event may be no time. */
export function createTime(instant, clinicId) {
  if (Number.isNaN(Date.parse(instant))) return h("span", {}, instant || "unknown");
  const timeZone = getTimeZone(clinicId);
  if (timeZone === "UTC") return h("time", { datetime: instant }, formatUtc(instant));
  const local = h("span", { class: "local", title: timeZone }, formatLocal(instant, timeZone));
  return h("time", { datetime: instant }, local, " ", h("span", { class: "utc" }, formatUtc(instant)));
}

/** Creates an element with a time in the clinic's time zone. The time in UTC is its tooltip. */
export function createLocalTime(instant, clinicId) {
  if (Number.isNaN(Date.parse(instant))) return createTime(instant, clinicId);
  const text = formatLocal(instant, getTimeZone(clinicId));
  return h("time", { datetime: instant, title: formatUtc(instant) }, text);
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
