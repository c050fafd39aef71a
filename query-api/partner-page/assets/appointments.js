import { onClick, onSubmit, runAction } from "./actions.js";
import { getAnimalName, getBranchName, getClinic, getTimeZone, readLocalTime } from "./clinic.js";
import { confirmAction } from "./confirm.js";
import {
  createButton,
  createEmptyText,
  createId,
  createRow,
  createStatusTag,
  createTable,
  getElement,
  h,
} from "./dom.js";
import { knownAppointmentIds } from "./filters.js";
import { formatCount, formatMinute, formatTimeOfDay } from "./format.js";
import { toInstant, toLocalInput } from "./local-time.js";
import { createIdempotencyKey, getEnvironment, request, requestWithHeaders } from "./session.js";
import { createLocalTime } from "./times.js";

const CANCEL = "Cancel appointment";
const START = { "Start consultation": "in_consultation", [CANCEL]: "cancelled" };

/** Actions of the clinic by appointment status: button labels with the next status. `Move` keeps the status. */
const STEPS = {
  requested: { Confirm: "confirmed", "Check in": "checked_in", [CANCEL]: "cancelled", Move: undefined },
  confirmed: { "Check in": "checked_in", "No show": "no_show", [CANCEL]: "cancelled", Move: undefined },
  checked_in: START,
  waiting: START,
  in_consultation: { Complete: "completed" },
};

let appointments = [];

/** Number of requests for the list. Only the response to the latest request is shown. */
let requestCount = 0;

let onShowDeliveries = () => undefined;

/** Idempotency key and selected free time (`slot`) of the appointment that the form created last. */
let used = {};

/** Initializes the forms of the tab. `showDeliveries` shows the deliveries about the appointment with the given id. */
export function initAppointments(showDeliveries) {
  onShowDeliveries = showDeliveries;
  getElement("new-key").addEventListener("click", setNewKey);
  onClick("find-slots", "appointment-alert", findSlots);
  getElement("slot").addEventListener("change", ({ target: { value } }) => {
    if (value) getElement("scheduled-at").value = toLocalInput(Date.parse(value.split(" ")[0]), getTimeZone());
  });
  // A free time is bound to its start and its branch.
  for (const id of ["scheduled-at", "branch"])
    getElement(id).addEventListener("change", () => {
      getElement("slot").value = "";
    });
  // A changed form is another appointment, for which the API would refuse the key.
  getElement("appointment-form").addEventListener("input", ({ target }) => {
    const field = getElement("idempotency-key");
    if (target !== field && field.value === used.key) setNewKey();
  });
  onSubmit("appointment-form", "appointment-alert", createAppointment);
  onSubmit("window-form", "appointments-alert", () => loadPage());
}

/** Fills the forms for the selected clinic. */
export function prepareAppointments() {
  const { branches, sandbox } = getClinic();
  const toOptions = (list) => list.map(({ id, name }) => h("option", { value: id }, name));
  getElement("branch").replaceChildren(...toOptions(branches));
  getElement("animal").replaceChildren(...toOptions(sandbox?.animals ?? []));
  // Only the sandbox lists its animals.
  getElement("animal-field").hidden = sandbox === undefined;
  getElement("animal-id-field").hidden = sandbox !== undefined;
  getElement("animal-id").required = sandbox === undefined;
  getElement("real-appointment").hidden = getEnvironment() !== "production";
  const today = toLocalInput(Date.now(), getTimeZone()).slice(0, 10);
  getElement("scheduled-at").value = toLocalInput(
    Date.parse(toInstant(`${today}T10:00`, getTimeZone(), 1)),
    getTimeZone(),
  );
  getElement("window-from").value = today;
  showSlots([], []);
  setNewKey();
}

/** Lists the free times on the day of the chosen start. */
async function findSlots() {
  const date = getElement("scheduled-at").value.slice(0, 10);
  const [from, to] = [0, 1].map((days) => toInstant(date, getTimeZone(), days));
  const query = { from, to, branchId: getElement("branch").value, limit: 1_000 };
  const { slots, resources } = await request("GET", "/slots", { query });
  showSlots(slots, resources);
  const text = slots.length === 0 ? "No free times on this day." : `${slots.length} free times on this day.`;
  getElement("slots-status").textContent = text;
  getElement("slot").focus();
}

function showSlots(slots, resources) {
  const names = new Map(resources.map(({ id, name }) => [id, name]));
  const options = slots.map(({ startsAt, resourceIds: [resourceId] }) => {
    const text = `${formatTimeOfDay(startsAt, getTimeZone())} · ${names.get(resourceId)}`;
    return h("option", { value: `${startsAt} ${resourceId}` }, text);
  });
  getElement("slot").replaceChildren(h("option", { value: "" }, "none: any start, without a room"), ...options);
}

/** Sets a new idempotency key for the next appointment. Removes the free time that the previous appointment took. */
function setNewKey() {
  getElement("idempotency-key").value = createIdempotencyKey();
  if (used.slot?.value) used.slot.remove();
  used = {};
}

/** Loads the appointments of the selected window. */
export function showAppointments() {
  return runAction({ alertId: "appointments-alert" }, () => loadPage());
}

/** Loads and shows the page of appointments at a cursor, by default the first page. */
async function loadPage(cursor) {
  const { value: date } = getElement("window-from");
  const [from, to] = [0, Number(getElement("window-days").value)].map((days) => toInstant(date, getTimeZone(), days));
  const status = getElement("appointments-status");
  if (!cursor) status.textContent = "Loading …";
  requestCount += 1;
  const count = requestCount;
  const body = await request("GET", "/appointments", { query: { from, to, cursor } }).catch((error) => {
    if (count === requestCount) status.textContent = "";
    throw error;
  });
  if (count !== requestCount) return;
  const { nextCursor } = body.page;
  const shown = cursor ? appointments.length : null;
  appointments = cursor ? [...appointments, ...body.appointments] : body.appointments;
  for (const { id } of body.appointments) knownAppointmentIds.add(id);
  status.textContent = `${formatCount(appointments.length, "appointment")}${nextCursor ? "; there are more" : ""}`;
  getElement("appointments-body").replaceChildren(createAppointmentTable(), nextCursor ? createMore(nextCursor) : "");
  if (shown !== null)
    getElement("appointments-body").querySelectorAll("tbody tr")[shown]?.querySelector("button").focus();
}

function createMore(cursor) {
  const onclick = ({ currentTarget: button }) =>
    runAction({ button, alertId: "appointments-alert" }, () => loadPage(cursor));
  return createButton("Show more", { class: "more", onclick });
}

function createAppointmentTable() {
  if (appointments.length === 0)
    return createEmptyText("No appointments in this period. Create one, or show more days.");
  const titles = ["Start and id", "Details", "Status", "Actions"];
  const rows = appointments.map((appointment) => {
    const { id, scheduledAt, durationMinutes, animalId, branchId, status, notes } = appointment;
    const duration = h("span", { class: "duration" }, ` · ${durationMinutes} min`);
    const details = `${getAnimalName(animalId)}, ${getBranchName(branchId)}`;
    const cells = [
      [details, h("p", { class: "notes soft" }, notes ?? "")],
      createStatusTag(status),
      [
        createButton("Deliveries", { class: "small", onclick: () => onShowDeliveries(id) }),
        ...createPlayButtons(appointment),
      ],
    ];
    return createRow([createLocalTime(scheduledAt, getTimeZone()), duration, createId(id)], cells, { "data-id": id });
  });
  return createTable("Appointments", titles, rows, { class: "appointments blocks" });
}

/** Shows an appointment after a change by the clinic, and moves the focus to its first button. */
function showChange(changed) {
  const { id, status, scheduledAt } = changed;
  appointments = appointments.map((listed) => (listed.id === id ? changed : listed));
  const body = getElement("appointments-body");
  body.querySelector(".scroll")?.replaceWith(createAppointmentTable());
  body.querySelector(`[data-id="${id}"] button`)?.focus();
  const text = `${status.replaceAll("_", " ")}, ${formatMinute(scheduledAt, getTimeZone())}`;
  getElement("appointments-status").textContent = `The clinic changed appointment ${id}: ${text}.`;
}

/**
 * Creates the buttons that act as the clinic in the application's sandbox, and so cause `appointment.updated` events.
 * Appointments of the fixture, created at or before the latest reset, cannot be changed.
 */
function createPlayButtons({ id, status, scheduledAt, createdAt, animalId }) {
  const { sandbox } = getClinic();
  if (!sandbox) return [];
  if (createdAt <= sandbox.resetAt) return [h("span", { class: "hint" }, "Fixture: cannot be changed.")];
  const name = `${getAnimalName(animalId)}, ${formatMinute(scheduledAt, getTimeZone())}, appointment ${id}`;
  const send = async (path, body) =>
    showChange((await request("POST", `/appointments/${id}/${path}`, { body })).appointment);
  const move = async () => {
    const input = {
      label: `New time (${getTimeZone()})`,
      value: toLocalInput(Date.parse(scheduledAt), getTimeZone()),
    };
    const start = await confirmAction({ title: "Move the appointment?", text: `${name}.`, accept: "Move", input });
    if (start) await send("reschedule", { scheduledAt: readLocalTime(start) });
  };
  const step = async (label, to) => {
    const question = { title: `${label}?`, text: `${name}. This cannot be undone.`, accept: label, isFinal: true };
    if (["cancelled", "no_show"].includes(to) && !(await confirmAction(question))) return;
    await send("transitions", { to });
  };
  return Object.entries(STEPS[status] ?? {}).map(([label, to]) => {
    const play = to ? () => step(label, to) : move;
    const onclick = ({ currentTarget: button }) => runAction({ button, alertId: "appointments-alert" }, play);
    return createButton(label, { class: "small", onclick });
  });
}

async function createAppointment() {
  const { sandbox } = getClinic();
  const notes = getElement("notes").value;
  const [slot] = getElement("slot").selectedOptions;
  const [, resourceId] = slot.value.split(" ");
  const key = getElement("idempotency-key").value;
  const { body, headers } = await requestWithHeaders("POST", "/appointments", {
    headers: { "Idempotency-Key": key },
    body: {
      branchId: getElement("branch").value,
      animalId: getElement(sandbox ? "animal" : "animal-id").value.trim(),
      scheduledAt: readLocalTime(getElement("scheduled-at").value),
      ...(resourceId ? { resourceId } : {}),
      ...(notes === "" ? {} : { notes }),
    },
  });
  used = { key, slot };
  const { scheduledAt, id } = body.appointment;
  const start = formatMinute(scheduledAt, getTimeZone());
  const notice = getElement("appointment-status");
  notice.textContent = headers.has("Idempotent-Replayed")
    ? `The key was already used: the API returned its first response, appointment ${id}. Nothing was created.`
    : `Created appointment ${id} on ${start}.`;
  notice.scrollIntoView({ block: "nearest" });
  showAppointments(); // without waiting, so that the user can create the next appointment
}

/** Removes all data of the former session. */
export function clearAppointments() {
  appointments = [];
  knownAppointmentIds.clear();
  const ids = ["branch", "animal", "slot", "appointments-body", "appointments-status", "appointment-status"];
  for (const id of [...ids, "slots-status", "appointment-alert", "appointments-alert"])
    getElement(id).replaceChildren();
  for (const id of ["notes", "animal-id", "idempotency-key"]) getElement(id).value = "";
}
