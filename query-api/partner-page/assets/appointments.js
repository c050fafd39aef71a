import { onSubmit, runAction } from "./actions.js";
import { getAnimalName, getBranchName, getClinic, getTimeZone } from "./clinic.js";
import { createEmptyText, createTable, getElement, h } from "./dom.js";
import { createButton, createId, createStatusTag } from "./elements.js";
import { formatMinute } from "./format.js";
import { createIdempotencyKey } from "./idempotency-key.js";
import { toInstant, toLocalInput } from "./local-time.js";
import { getEnvironment, request, requestWithHeaders } from "./session.js";
import { createLocalTime } from "./times.js";

const DAY_MS = 24 * 3_600_000;

/** The listed appointments. */
let appointments = [];

/** Number of requests for the list. Only the response to the latest one is shown. */
let requestCount = 0;

let onShowDeliveries = () => undefined;

/**
 * Initializes the forms of the tab.
 *
 * @param {(appointmentId: string) => void} showDeliveries shows the deliveries about an appointment
 */
export function initAppointments(showDeliveries) {
  onShowDeliveries = showDeliveries;
  getElement("new-key").addEventListener("click", setNewKey);
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
  const [today, tomorrow] = [0, DAY_MS].map((ms) => toLocalInput(Date.now() + ms, getTimeZone()).slice(0, 10));
  getElement("scheduled-at").value = `${tomorrow}T10:00`;
  getElement("window-from").value = today;
  setNewKey();
}

function setNewKey() {
  getElement("idempotency-key").value = createIdempotencyKey();
}

/** Loads the appointments of the selected window. */
export function showAppointments() {
  return runAction({ alertId: "appointments-alert" }, () => loadPage());
}

/** @param {string | undefined} cursor cursor of the next page; undefined for the first page */
async function loadPage(cursor) {
  const timeZone = getTimeZone();
  const from = toInstant(getElement("window-from").value, timeZone);
  const days = Number(getElement("window-days").value);
  const to = new Date(Date.parse(from) + days * DAY_MS).toISOString();
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
  appointments = cursor ? [...appointments, ...body.appointments] : body.appointments;
  const countText = `${appointments.length} ${appointments.length === 1 ? "appointment" : "appointments"}`;
  status.textContent = `${countText}${nextCursor ? "; there are more" : ""}`;
  getElement("appointments-body").replaceChildren(createAppointmentTable(), nextCursor ? createMore(nextCursor) : "");
}

function createMore(cursor) {
  const onclick = ({ currentTarget: button }) =>
    runAction({ button, alertId: "appointments-alert" }, () => loadPage(cursor));
  return createButton("Show more", { class: "more", onclick });
}

function createAppointmentTable() {
  if (appointments.length === 0)
    return createEmptyText("No appointments in this period. Create one, or show more days.");
  const titles = ["Start and id", "Animal", "Branch", "Status", "Notes", "Webhooks"];
  const rows = appointments.map(({ id, scheduledAt, durationMinutes, animalId, branchId, status, notes }) =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        createLocalTime(scheduledAt, getTimeZone()),
        createDuration(durationMinutes),
        createId(id),
      ),
      h("td", {}, getAnimalName(animalId)),
      h("td", {}, getBranchName(branchId)),
      h("td", {}, createStatusTag(status)),
      h("td", { class: "notes" }, notes ?? ""),
      h("td", {}, createButton("Deliveries", { class: "small", onclick: () => onShowDeliveries(id) })),
    ),
  );
  return createTable("Appointments", titles, rows, { class: "appointments" });
}

function createDuration(minutes) {
  return h("span", { class: "duration" }, ` · ${minutes} min`);
}

async function createAppointment() {
  const { sandbox } = getClinic();
  const notes = getElement("notes").value;
  const { body, headers } = await requestWithHeaders("POST", "/appointments", {
    headers: { "Idempotency-Key": getElement("idempotency-key").value },
    body: {
      branchId: getElement("branch").value,
      animalId: getElement(sandbox ? "animal" : "animal-id").value.trim(),
      scheduledAt: toInstant(getElement("scheduled-at").value, getTimeZone()),
      ...(notes === "" ? {} : { notes }),
    },
  });
  const { scheduledAt, id } = body.appointment;
  const start = formatMinute(scheduledAt, getTimeZone());
  getElement("appointment-status").textContent = headers.has("Idempotent-Replayed")
    ? `The key was already used: the API returned its first response, appointment ${id}. Nothing was created.`
    : `Created appointment ${id} on ${start}.`;
  showAppointments(); // without waiting, so that the user can create the next appointment
}

/** Removes all data of the former session. */
export function clearAppointments() {
  appointments = [];
  const ids = ["branch", "animal", "appointments-body", "appointments-status", "appointment-status"];
  for (const id of [...ids, "appointment-alert", "appointments-alert"]) getElement(id).replaceChildren();
  for (const id of ["notes", "animal-id", "idempotency-key"]) getElement(id).value = "";
}
