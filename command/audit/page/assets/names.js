import { getTimeZone } from "./clinics.js";
import { createId, getElement, h } from "./dom.js";
import { formatMinute, isUuid, shortenId } from "./format.js";

/** Names by id. */
const names = new Map();

/** Stores the names from a response. If `records` is null, shows that names are unavailable. */
export function rememberNames(records) {
  for (const record of records ?? []) names.set(record.id, record);
  getElement("names-alert").textContent = records
    ? ""
    : "Names are unavailable at the moment. You can still search by id.";
}

/** Stores a name that another part of a response contains. Ignores null. */
export function rememberName(id, name) {
  if (name !== null) names.set(id, { id, name, scheduledAt: null });
}

/**
 * Creates an element with the name and the id of a record. A value that is not a UUID is shown as it is.
 *
 * @param {boolean} isShort if true, only the first characters of the id are shown
 */
export function createNamedId(id, isShort = true) {
  if (!isUuid(id)) return h("span", {}, String(id));
  return h("span", { title: id }, createName(id), createId(isShort ? shortenId(id) : id));
}

/**
 * Creates an element with the name of a record. The element is empty if the name is unknown.
 *
 * @param {boolean} hasTime if true, the name of an appointment includes the time for which it is scheduled
 */
export function createName(id, hasTime = true) {
  const record = names.get(id.toLowerCase());
  return h("span", { class: "name" }, record ? `${describeRecord(record, hasTime)} `.trimStart() : "");
}

function describeRecord({ name, scheduledAt, clinicId }, hasTime) {
  if (scheduledAt === null || !hasTime) return name ?? "";
  const time = formatMinute(scheduledAt, getTimeZone(clinicId));
  return name === null ? time : `${name}, ${time}`;
}
