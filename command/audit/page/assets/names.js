import { fetchJson, ServiceError } from "./api.js";
import { getTimeZone } from "./clinics.js";
import { getElement, h } from "./dom.js";
import { formatMinute, isUuid, shortenId } from "./format.js";

/** Maximum number of ids in one request. */
const MAX_IDS = 200;

/** Names by id; null for an id without a name. */
const names = new Map();

/** Ids whose names are not requested yet. */
const pendingIds = new Set();

let onError = () => {};

/** @param {(error: Error) => void} handleError called if names cannot be loaded */
export function initNames(handleError) {
  onError = handleError;
}

/** Forgets all names. */
export function clearNames() {
  names.clear();
  pendingIds.clear();
  getElement("names-alert").textContent = "";
}

/** Stores names that are known already, so that they are not requested. */
export function rememberName(id, name) {
  if (name !== null) names.set(id, { id, name, scheduledAt: null });
}

/**
 * Creates an element with the name and the id of a record. The name appears when it is known. A value that is not a
 * UUID is shown as it is.
 *
 * @param {boolean} isShort if true, only the first characters of the id are shown
 */
export function createNamedId(id, isShort = true) {
  if (!isUuid(id)) return h("span", {}, String(id));
  return h("span", { title: id }, createName(id), h("span", { class: "id" }, isShort ? shortenId(id) : id));
}

/**
 * Creates an element with the name of a record, which is empty until the name is known.
 *
 * @param {boolean} hasTime if true, the name of an appointment includes its present time
 */
export function createName(id, hasTime = true) {
  const element = h("span", { class: "name", "data-name-of": id.toLowerCase(), "data-has-time": hasTime });
  showName(element, names.get(id.toLowerCase()));
  if (!names.has(id.toLowerCase())) {
    if (pendingIds.size === 0) setTimeout(loadNames);
    pendingIds.add(id.toLowerCase());
  }
  return element;
}

async function loadNames() {
  const ids = [...pendingIds];
  pendingIds.clear();
  try {
    for (let start = 0; start < ids.length; start += MAX_IDS) {
      const batch = ids.slice(start, start + MAX_IDS);
      const response = await fetchJson("names", { ids: batch.join(",") });
      for (const id of batch) names.set(id, null);
      for (const record of response.names) names.set(record.id, record);
    }
    getElement("names-alert").textContent = "";
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status === 401) return onError(error);
    getElement("names-alert").textContent = error.message;
  }
  for (const element of document.querySelectorAll("[data-name-of]"))
    showName(element, names.get(element.dataset.nameOf));
}

function showName(element, record) {
  element.textContent = record ? `${describeRecord(record, "hasTime" in element.dataset)} `.trimStart() : "";
}

function describeRecord({ name, scheduledAt, clinicId }, hasTime) {
  if (scheduledAt === null || !hasTime) return name ?? "";
  const time = formatMinute(scheduledAt, getTimeZone(clinicId) ?? "UTC");
  return name === null ? time : `${name}, ${time}`;
}
