import { onSubmit, runAction, showProgress } from "./actions.js";
import { getClinic } from "./clinic.js";
import { createEmptyText, createStatusTag, getElement, h, markCurrent } from "./dom.js";
import { formatCount, isUuid, shortenId } from "./format.js";
import { getHealth } from "./health.js";
import { getEnvironment, request } from "./session.js";

/**
 * Maximum number of endpoints to search for deliveries, with one request for each endpoint. A clinic cannot have more
 * endpoints that are not revoked.
 */
const MAX_SEARCHED = 50;

/** The clinic's endpoints, and the id of the selected one. */
let endpoints = [];
let selectedId;

/** Number of deliveries about the searched appointment, by endpoint id. */
let counts = new Map();
let onSelect = () => undefined;

const formatFound = (count) => formatCount(count, "delivery", "deliveries");

/** Initializes the list of endpoints and the form that creates an endpoint. */
export function initEndpoints(handlers) {
  onSelect = handlers.onSelect;
  getElement("new-endpoint").addEventListener("click", () => {
    openForm(getElement("endpoint-form").hidden);
    getElement("endpoint-url").focus();
  });
  const cancel = () => {
    openForm(false);
    getElement("new-endpoint").focus();
  };
  getElement("cancel-endpoint").addEventListener("click", cancel);
  getElement("endpoint-form").addEventListener("keydown", ({ key }) => {
    if (key === "Escape") cancel();
  });
  onSubmit("endpoint-form", "endpoint-form-alert", async () => {
    const events = [...document.querySelectorAll("#endpoint-form [name=events]:checked")].map(({ value }) => value);
    const body = { url: getElement("endpoint-url").value.trim(), events };
    const { endpoint, secret } = await request("POST", "/webhook-endpoints", { body });
    openForm(false);
    handlers.onCreate(endpoint, secret);
    runAction({ alertId: "endpoints-alert", isRepeatable: true }, showEndpoints);
  });
}

function openForm(isOpen) {
  const form = getElement("endpoint-form");
  form.reset();
  form.hidden = !isOpen;
  getElement("new-endpoint").setAttribute("aria-expanded", String(isOpen));
  getElement("endpoint-form-alert").replaceChildren();
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  getElement("endpoint-url-hint").textContent = [
    `An HTTPS URL of a public host${isLocal ? ", or an HTTP URL of this machine" : ""}.`,
    ...(getEnvironment() === "production" ? ["The operator must have approved its origin."] : []),
    "Without a public address, run “clinic partner listen”: it needs no endpoint, and prints its own signing secret.",
  ].join(" ");
}

/** Loads the endpoints, and shows the list. */
export async function showEndpoints() {
  const load = () => request("GET", "/webhook-endpoints");
  endpoints = (await showProgress(getElement("endpoints"), createEmptyText("Loading …"), load)).endpoints;
  renderEndpoints();
  // Without endpoints, the form is the next step. A form that is open keeps its input.
  if (endpoints.length === 0 && getElement("endpoint-form").hidden) openForm(true);
}

/**
 * Counts the deliveries about an appointment at all endpoints, and shows the numbers in the list. Without an appointment
 * id, removes the numbers.
 *
 * @returns ids of the endpoints with such deliveries, in the order of the list
 */
export async function searchAppointment(appointmentId) {
  const search = new Map();
  counts = search;
  const status = getElement("search-status");
  status.textContent = "";
  renderEndpoints();
  if (appointmentId && !isUuid(appointmentId))
    status.textContent = "No single listed appointment has an id that starts so. Enter the complete id.";
  if (!isUuid(appointmentId)) return [];
  status.textContent = "Searching all endpoints …";
  const searched = [...getCurrent(), ...getRevoked()].slice(0, MAX_SEARCHED);
  const query = { appointmentId, limit: 100 };
  const countAt = async ({ id }) => {
    const { deliveries } = await request("GET", `/webhook-endpoints/${id}/deliveries`, { query });
    search.set(id, deliveries.length);
  };
  try {
    await Promise.all(searched.map(countAt));
  } finally {
    if (search === counts) status.textContent = "";
  }
  if (search !== counts) return []; // another search has started
  const foundIds = searched.map(({ id }) => id).filter((id) => search.get(id) > 0);
  const where = `at ${foundIds.length} of ${searched.length} endpoints`;
  const total = [...search.values()].reduce((sum, count) => sum + count, 0);
  status.textContent = `Appointment ${shortenId(appointmentId)}: ${formatFound(total)} ${where}.`;
  renderEndpoints();
  return foundIds;
}

/** Shows the changed state of an endpoint in the list. */
export function updateEndpoint(endpoint) {
  endpoints = endpoints.map((former) => (former.id === endpoint.id ? { ...former, ...endpoint } : former));
  renderEndpoints();
}

/** Marks an endpoint as selected. */
export function markEndpoint(id) {
  selectedId = id;
  markCurrent(getElement("endpoints").querySelectorAll("button"), id);
}

/** Returns the endpoint with the given id; undefined if it is not in the list. */
export function findEndpoint(endpointId) {
  return endpoints.find(({ id }) => id === endpointId);
}

/** Returns the endpoint that is shown first. */
export function getFirstEndpoint() {
  return getCurrent()[0];
}

function getCurrent() {
  return endpoints.filter(({ status }) => status !== "revoked");
}

function getRevoked() {
  return endpoints.filter(({ status }) => status === "revoked");
}

function renderEndpoints() {
  const [current, revoked] = [getCurrent(), getRevoked()];
  const body = getElement("endpoints");
  const focusedId = document.activeElement?.closest("#endpoints button")?.dataset.id;
  const isRevokedOpen = body.querySelector("details")?.open === true || revoked.some(({ id }) => id === selectedId);
  const summary = h("summary", {}, `Revoked (${revoked.length})`);
  body.replaceChildren(
    current.length === 0 ? createEmptyText(`No endpoints at ${getClinic().name} yet.`) : createList(current),
    revoked.length === 0 ? "" : h("details", { open: isRevokedOpen }, summary, createList(revoked)),
  );
  markEndpoint(selectedId);
  if (focusedId) body.querySelector(`[data-id="${CSS.escape(focusedId)}"]`)?.focus();
}

function createList(list) {
  return h("ul", { class: "choice-list" }, ...list.map((endpoint) => h("li", {}, createChoice(endpoint))));
}

function createChoice(endpoint) {
  const { id, url, events } = endpoint;
  return h(
    "button",
    { type: "button", class: "choice", "data-id": id, onclick: () => onSelect(endpoint) },
    h("span", { class: "what" }, url),
    h("span", { class: "soft" }, events.join(", ") || "operational events only"),
    counts.has(id) ? h("span", { class: "soft" }, `${formatFound(counts.get(id))} found`) : "",
    createStatusTag(getHealth(endpoint)),
  );
}

/** Removes all data of the former session. */
export function clearEndpoints() {
  endpoints = [];
  selectedId = undefined;
  counts = new Map();
  openForm(false);
  for (const id of ["endpoints", "endpoints-alert", "search-status"]) getElement(id).replaceChildren();
}
