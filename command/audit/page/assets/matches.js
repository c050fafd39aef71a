import { fetchJson, postJson } from "./api.js";
import { countClinics, createLocalTime, getClinicName, getTimeZone } from "./clinics.js";
import { createEmptyText, createHint, createId, createTag, getElement, h } from "./dom.js";
import { formatCount, formatMinute, shortenId } from "./format.js";
import { rememberName } from "./names.js";
import { toUrlFragment } from "./search.js";
import { describeEvent } from "./sentences.js";
import { formatName } from "./text.js";

let controller = new AbortController();

/** Collapses the list of matches, so that the results of the chosen match are in view. */
export function foldMatches() {
  getElement("matches-list").open = false;
}

/** Hides the matches and ends a running search. */
export function clearMatches() {
  controller.abort();
  getElement("matches").hidden = true;
  getElement("matches-body").replaceChildren();
}

/** Finds customers, animals and staff members by name, and shows links to their events. */
export function findByName(query) {
  const describeCount = (count) => formatCount(count, "name matches", "names match");
  return showMatches(describeCount, async (signal) => {
    const { results, isComplete } = await postJson("search", query, signal);
    const showsClinics = query.clinic === undefined && countClinics() > 1;
    const items = results.map((result) => createNameItem(result, showsClinics));
    return { items, emptyText: "No name contains this text.", isComplete, advice: "Enter more of the name" };
  });
}

/** Finds the appointments of a day, optionally at a time of that day, and shows links to their events. */
export function findAppointments({ clinic, day, time }) {
  const when = time ? `on ${day} at ${time}` : `on ${day}`;
  const describeCount = (count) => `${formatCount(count, "appointment")} ${when}`;
  return showMatches(describeCount, async (signal) => {
    const { appointments, isComplete, events } = await fetchJson("appointments", { clinic, day, time }, signal);
    const emptyText = time ? "No appointment takes place at this time." : "No appointments on this day.";
    const count = new Set(appointments.map(({ id }) => id)).size;
    const items = appointments.map((appointment) => createAppointmentItem(appointment, events));
    return { items, count, emptyText, isComplete, advice: "Enter a time" };
  });
}

/** Shows the matches that `find` returns. A newer search aborts this search. */
async function showMatches(describeCount, find) {
  controller.abort();
  controller = new AbortController();
  const { signal } = controller;
  const body = getElement("matches-body");
  getElement("matches").hidden = false;
  getElement("matches-list").open = true;
  getElement("matches-title").textContent = "Searching …";
  body.replaceChildren();
  try {
    const { items, count = items.length, emptyText, isComplete, advice } = await find(signal);
    signal.throwIfAborted();
    getElement("matches-title").textContent = describeCount(count);
    body.replaceChildren(
      items.length === 0 ? createEmptyText(emptyText) : h("ul", { class: "matches" }, ...items),
      isComplete ? "" : createHint(`There are more matches. ${advice} to see them.`),
    );
  } catch (error) {
    if (!signal.aborted) clearMatches();
    throw error;
  }
}

/** Functions that return the search for a record's events, by kind of record. */
const SUBJECTS = {
  customer: (id) => ({ kind: "customer", id }),
  animal: (id) => ({ kind: "animal", id }),
  staff: (id) => ({ kind: "stream", id: `staff-${id}` }),
};

function createNameItem({ kind, id, name, clinicId, customer, detail }, showsClinic) {
  rememberName(id, name);
  if (customer) rememberName(customer.id, customer.name);
  const owner = customer ? ["of ", createLink(SUBJECTS.customer(customer.id), customer.name), " "] : [];
  const clinicName = showsClinic ? h("span", { class: "soft" }, getClinicName(clinicId)) : "";
  return h(
    "li",
    {},
    createTag(detail ? `${kind}, ${formatName(detail)}` : kind),
    h("span", {}, createLink(SUBJECTS[kind](id), name), " ", ...owner, createId(shortenId(id))),
    clinicName,
    createLink({ ...SUBJECTS[kind](id), view: "accesses" }, "Who read this"),
  );
}

/** @param {object[]} events events that scheduled the moved appointments, in the order of each stream */
function createAppointmentItem(appointment, events) {
  const { id, clinicId, scheduledAt, movedFrom, durationMinutes, status, branch, animal, customer } = appointment;
  const timeZone = getTimeZone(clinicId);
  const movedText = movedFrom ? `moved to ${formatMinute(scheduledAt, timeZone)}` : "";
  for (const record of [animal, customer]) if (record) rememberName(record.id, record.name);
  const createRecordLink = (kind, record) =>
    record ? [" · ", createLink({ kind, id: record.id }, record.name ?? shortenId(record.id))] : [];
  return h(
    "li",
    {},
    createLink({ kind: "appointment", id }, formatMinute(movedFrom ?? scheduledAt, timeZone)),
    h("span", { class: "utc" }, formatMinute(movedFrom ?? scheduledAt, "UTC")),
    h(
      "span",
      {},
      `${durationMinutes} min`,
      ...createRecordLink("animal", animal),
      ...createRecordLink("customer", customer),
      branch === null ? "" : ` · ${branch}`,
      " ",
      createId(shortenId(id), { title: id }),
    ),
    createTag(formatName(status).replaceAll("_", " ")),
    h("span", { class: "moved wide" }, ...(describeMove(events, appointment) ?? [movedText])),
  );
}

function createLink(subject, text) {
  return h("a", { href: toUrlFragment(subject) }, text);
}

/** Describes who moved an appointment, when, why, and from which time to which; undefined if it was not moved. */
function describeMove(events, appointment) {
  const [before, event] = findMove(events, appointment) ?? [];
  return event && describeEvent(event, before.data, [", ", createLocalTime(event.occurredAt, event.clinicId)]);
}

/** Finds the last move away from a row's former time or, without a former time, the last move to the current time. */
function findMove(events, { id, isMoved, movedFrom, scheduledAt }) {
  const schedulings = events.filter(({ stream, problem }) => isMoved && !problem && stream === `appointment-${id}`);
  const steps = schedulings.slice(1).map((event, index) => [schedulings[index], event]);
  return steps.findLast(
    ([{ data: before }, { data }]) =>
      before.scheduledAt !== data.scheduledAt &&
      (movedFrom === null ? data.scheduledAt === scheduledAt : before.scheduledAt === movedFrom),
  );
}
