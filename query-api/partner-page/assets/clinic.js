import { showProgress } from "./actions.js";
import { createId, getElement, h } from "./dom.js";
import { shortenId } from "./format.js";
import { ApiError } from "./http.js";
import { toInstant, toLocalInput } from "./local-time.js";
import { getClinicId, getEnvironment, request } from "./session.js";

/** The selected clinic with branches, installation and, for the application's own sandbox, its sandbox state. */
let clinic;

/** Installations by clinic id, and the state of the application's sandbox. */
let installations = new Map();
let sandbox;

export function getClinic() {
  return clinic;
}

/** Returns the clinic's time zone, or UTC if the browser does not know the time zone. */
export function getTimeZone() {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: clinic.timezone }).resolvedOptions().timeZone;
  } catch {
    return "UTC";
  }
}

/**
 * Converts the value of an input from the clinic's local time to an instant.
 *
 * @throws {ApiError} if the clinic's clocks skip this time
 */
export function readLocalTime(value) {
  const instant = toInstant(value, getTimeZone());
  if (toLocalInput(Date.parse(instant), getTimeZone()) === value.slice(0, 16)) return instant;
  throw new ApiError(422, { details: [{ path: "scheduledAt", message: "the clinic's clocks skip this time" }] });
}

/**
 * Loads the application's installations and sandbox, and fills the selection of clinics.
 *
 * @param {string | undefined} preferredId id of the clinic to show first, if it approved the application
 * @returns id of the clinic to show first, by default the sandbox; undefined if no clinic approved the application
 */
export async function loadInstallations(preferredId) {
  const [list] = await Promise.all([request("GET", "/installations"), loadSandbox()]);
  installations = new Map(list.installations.map((installation) => [installation.clinicId, installation]));
  const ids = [...installations.keys()];
  const options = ids.map((id) => h("option", { value: id }, createOptionText(installations.get(id))));
  getElement("clinic").replaceChildren(...options);
  getElement("clinic-field").hidden = ids.length < 2;
  return [preferredId, sandbox?.clinicId].find((id) => ids.includes(id)) ?? ids[0];
}

/** Loads the state of the application's sandbox, if the application has the scope to read it. */
export async function loadSandbox() {
  if (getEnvironment() !== "sandbox") return;
  try {
    sandbox = (await request("GET", "/sandbox")).sandbox;
  } catch (error) {
    if (error.code !== "insufficient_scope") throw error;
  }
  if (clinic?.id === sandbox?.clinicId) clinic = clinic && { ...clinic, sandbox };
}

function createOptionText({ clinicId, clinicName }) {
  return `${clinicName}${clinicId === sandbox?.clinicId ? " (your sandbox)" : ""} · ${shortenId(clinicId)}`;
}

/** Loads the selected clinic, and shows its name, status and time zone. */
export async function openClinic() {
  const clinicId = getClinicId();
  clinic = undefined;
  getElement("clinic-name").textContent = installations.get(clinicId)?.clinicName ?? "Clinic";
  const hint = getElement("clinic-hint");
  const context = await showProgress(hint, "Loading …", () => request("GET", "/clinic/context"));
  const isSandbox = clinicId === sandbox?.clinicId;
  clinic = {
    ...context.clinic,
    branches: context.branches,
    installation: { ...installations.get(clinicId), ...context.installation },
    sandbox: isSandbox ? sandbox : undefined,
  };
  getElement("clinic").value = clinicId;
  const { timezone, status } = clinic;
  const kind = isSandbox ? "Your sandbox" : `Clinic, ${status}`;
  hint.replaceChildren(`${kind} · ${timezone} · `, createId(clinicId));
  for (const label of document.querySelectorAll("[data-zone]")) label.textContent = getTimeZone();
}

/** Returns the name of a branch, or its id if the installation no longer covers the branch. */
export function getBranchName(branchId) {
  return clinic.branches.find(({ id }) => id === branchId)?.name ?? branchId;
}

/** Returns the name of an animal in the sandbox, or the id of any other animal. */
export function getAnimalName(animalId) {
  return clinic.sandbox?.animals.find(({ id }) => id === animalId)?.name ?? animalId ?? "unknown";
}
