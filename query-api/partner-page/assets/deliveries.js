import { clearError, onClick, runAction } from "./actions.js";
import { COLUMN_TITLES, createDelivery } from "./delivery.js";
import { createButton, createEmptyText, getElement, h } from "./dom.js";
import {
  getReplayFilters,
  initFilters,
  isFiltered,
  knownAppointmentIds,
  setFilters,
  showFilters,
  toQuery,
} from "./filters.js";
import { formatCount } from "./format.js";
import { isBeingDisabled } from "./health.js";
import { clearOutcomes } from "./outcomes.js";
import { findReplayable, replayDelivery, replayFailedDeliveries } from "./replays.js";
import { request } from "./session.js";

/** Waits before the automatic requests while an attempt is expected. Milliseconds. */
const WAITS_MS = [300, 700, 1_000, 2_000, 4_000, 8_000];

/** Wait before all other automatic requests. They use 4 of the 120 requests per minute. Milliseconds. */
const REFRESH_MS = 15_000;

/** An attempt is due soon if it starts within this time. Milliseconds. */
const SOON_MS = 60_000;

/** Returns the endpoint whose deliveries are listed. */
let getEndpoint = () => undefined;
let deliveries = [];
/** Cursor of the next page; null if the list is complete. */
let nextCursor = null;
/** Elements that show the deliveries, with the shown version, by delivery id. */
const elements = new Map();
/** Version of the shown list; undefined if no list is shown. */
let shownVersion;
/** Timer of the next automatic request, and the time of the latest request. */
let timer;
let requestedAt = 0;

/** Number of requests and removals of the list. Only the response to the latest request is shown. */
let listCount = 0;

/** Delivery that the user has just sent again or created, until the list contains its next attempt. */
let awaited;
let onLoad = async () => undefined;

/**
 * Initializes the list of deliveries.
 *
 * @param {{ getEndpoint(): object | undefined, onLoad(deliveries: object[], load: { isAutomatic: boolean }) }} handlers
 *   `onLoad` is called after the latest deliveries were loaded, and loads the endpoint again if it may have changed
 */
export function initDeliveries(handlers) {
  ({ getEndpoint, onLoad } = handlers);
  onClick("refresh-deliveries", "refresh-alert", () => loadFirstPage());
  onClick("replay-failed", "deliveries-alert", replayFailed);
  initFilters(() => {
    forgetList();
    reloadDeliveries();
  });
  document.addEventListener("visibilitychange", () => {
    if (Date.now() - requestedAt >= REFRESH_MS) refresh(WAITS_MS.length);
  });
}

/** Sets the filter of the list to an appointment, and removes the other filters. */
export function filterByAppointment(appointmentId) {
  setFilters({ appointmentId });
  forgetList();
}

/** Shows the deliveries that match the filters in the URL. */
export function applyFiltersOfUrl() {
  showFilters();
  forgetList();
  return reloadDeliveries();
}

/** Clears the list in memory and on the page. */
function forgetList() {
  deliveries = [];
  nextCursor = null;
  shownVersion = undefined;
  getElement("deliveries-body").replaceChildren();
  getElement("deliveries-status").textContent = "";
}

/**
 * Shows the latest deliveries of the endpoint, and reloads them regularly until `clearDeliveries` is called.
 *
 * @param {{ awaitedId?: string }} options `awaitedId`: delivery that the service has queued, but may not list yet
 */
export function showDeliveries({ awaitedId } = {}) {
  getElement("deliveries").hidden = false;
  if (awaitedId) awaitAttempt(awaitedId);
  return reloadDeliveries();
}

/** Removes all deliveries and stops loading them. */
export function clearDeliveries() {
  clearTimeout(timer);
  listCount += 1;
  forgetList();
  awaited = undefined;
  elements.clear();
  clearOutcomes();
  getElement("deliveries").hidden = true;
  getElement("replay-failed").hidden = true;
  for (const id of ["deliveries-alert", "refresh-alert"]) clearError(id);
}

/** Loads the latest deliveries again, if an endpoint is shown. */
export async function reloadDeliveries() {
  if (getEndpoint()) await runAction({ alertId: "refresh-alert" }, () => loadFirstPage());
}

/** Shortens the automatic waits until the list contains one more attempt of the delivery. */
function awaitAttempt(id) {
  awaited = { id, attempts: countAttempts(id) + 1 };
}

function countAttempts(id) {
  return deliveries.find((delivery) => delivery.id === id)?.attempts.length ?? 0;
}

/**
 * Loads the latest deliveries, and schedules the next automatic request.
 *
 * @param {number} round number of automatic requests so far
 */
async function loadFirstPage(round = 0) {
  listCount += 1;
  const count = listCount;
  requestedAt = Date.now();
  clearTimeout(timer);
  try {
    await updateList(round);
  } finally {
    if (count === listCount) scheduleRefresh(round);
  }
}

async function updateList(round) {
  const count = listCount;
  const page = await requestPage({ isAutomatic: round > 0 });
  if (count !== listCount) return; // the user selected another endpoint, or other filters
  clearError("refresh-alert");
  const newIds = new Set(page.deliveries.map(({ id }) => id));
  const older = deliveries.filter(({ id }) => !newIds.has(id));
  if (older.length === 0 || deliveries.length <= Number(toQuery().limit)) {
    deliveries = page.deliveries;
    nextCursor = page.page.nextCursor;
  } else {
    deliveries = [...page.deliveries, ...older];
  }
  const isChanged = render();
  await onLoad(deliveries, { isAutomatic: round > 0 });
  if (count !== listCount) return;
  // If nothing has changed, an automatic request is the only one, because requests count against the rate limit.
  if (render() || isChanged || round === 0) await offerReplay(round);
  if (count === listCount && awaited && countAttempts(awaited.id) >= awaited.attempts) awaited = undefined;
}

function requestPage({ cursor, isAutomatic }) {
  const query = { ...toQuery(), cursor };
  return request("GET", `/webhook-endpoints/${getEndpoint().id}/deliveries`, { query, isAutomatic });
}

/** Returns the endpoint's status. Returns `disabled` early if the service is about to disable the endpoint. */
function getStatus() {
  const endpoint = getEndpoint();
  return isBeingDisabled(endpoint, deliveries) ? "disabled" : endpoint.status;
}

/** Shows the button that replays failed deliveries, if some match the filters. */
async function offerReplay(round) {
  const count = listCount;
  const { statuses, title } = getReplayFilters();
  const isListed = deliveries.some(({ status }) => statuses.includes(status));
  // Automatic requests ask for other deliveries only once, because they count against the rate limit.
  if (!isListed && round > 0 && getElement("replay-failed").hidden) return;
  const isOffered =
    getStatus() === "active" && (isListed || (nextCursor !== null && (await findReplayable(getEndpoint().id))));
  if (count !== listCount) return;
  const button = getElement("replay-failed");
  // A hidden button would lose the focus.
  if (!isOffered && button === document.activeElement) getElement("endpoint-title").focus();
  button.textContent = title;
  button.hidden = !isOffered;
}

async function replayFailed() {
  const endpoint = getEndpoint();
  const isShown = () => getEndpoint()?.id === endpoint.id;
  const report = (text) => {
    if (isShown()) getElement("endpoint-status").textContent = text;
  };
  if ((await replayFailedDeliveries(endpoint, report)) && isShown()) await loadFirstPage();
}

function isDueSoon({ status, nextAttemptAt }) {
  return status === "pending" && Date.parse(nextAttemptAt) < Date.now() + SOON_MS;
}

function scheduleRefresh(round) {
  const isExpected = awaited || deliveries.some(isDueSoon);
  const nextRound = isExpected ? round : WAITS_MS.length;
  clearTimeout(timer);
  timer = setTimeout(() => refresh(nextRound + 1), WAITS_MS[nextRound] ?? REFRESH_MS);
}

/** Reloads the list, unless the list is not visible, a dialog is open, or the next page is loading. */
function refresh(round) {
  const isSeen = !document.hidden && getElement("deliveries").checkVisibility();
  if (isSeen && !document.querySelector("dialog[open], .more[aria-disabled]"))
    runAction({ alertId: "refresh-alert" }, () => loadFirstPage(round));
  else scheduleRefresh(WAITS_MS.length);
}

/** Shows the list. Returns false if the list has not changed since it was last shown. */
function render() {
  const version = JSON.stringify([deliveries, nextCursor, getStatus()]);
  if (version === shownVersion) return false;
  shownVersion = version;
  for (const { appointmentId } of deliveries) if (appointmentId) knownAppointmentIds.add(appointmentId);
  if (getStatus() !== "active") getElement("replay-failed").hidden = true;
  const body = getElement("deliveries-body");
  const pending = deliveries.filter(({ status }) => status === "pending").length;
  const count = `${formatCount(deliveries.length, "delivery", "deliveries")}, newest first`;
  getElement("deliveries-status").textContent =
    deliveries.length === 0 ? "" : `${count}${pending === 0 ? "" : `, ${pending} pending`}`;
  const items = deliveries.map(findOrCreateItem);
  const titles = h(
    "div",
    { class: "columns titles", "aria-hidden": "true" },
    ...COLUMN_TITLES.map((text) => h("span", {}, text)),
  );
  const list = h("ul", { class: "deliveries" }, ...items);
  const focused = document.activeElement;
  if (deliveries.length === 0) body.replaceChildren(...createEmptyList());
  else body.replaceChildren(titles, list, nextCursor === null ? "" : createMoreButton());
  // Moving an element in the document takes the focus away from it.
  if (body.contains(focused)) focused.focus();
  return true;
}

/** Creates the text that explains an empty list. If the list is filtered, a button removes the filters. */
function createEmptyList() {
  if (!isFiltered())
    return [createEmptyText("No deliveries in the last 30 days. Send a test event, or create an appointment.")];
  const onclick = () => {
    setFilters({});
    getElement("filter-status").focus();
    getElement("delivery-filters").dispatchEvent(new Event("change"));
  };
  return [
    createEmptyText("No delivery matches the filters."),
    h("div", { class: "buttons" }, createButton("Clear filters", { onclick })),
  ];
}

function createMoreButton() {
  const onclick = ({ currentTarget: button }) =>
    runAction({ button, alertId: "deliveries-alert" }, async () => {
      const cursor = nextCursor;
      const page = await requestPage({ cursor });
      // The user selected another endpoint or other filters, or the list has changed.
      if (cursor !== nextCursor) return;
      deliveries = [...deliveries, ...page.deliveries];
      nextCursor = page.page.nextCursor;
      render();
      const [firstAdded] = page.deliveries;
      elements.get(firstAdded?.id)?.item.querySelector("summary").focus();
    });
  return createButton("Show more", { class: "more", onclick });
}

/**
 * Returns the element of a delivery. If the delivery has not changed, keeps the element, with its focus and open
 * details.
 */
function findOrCreateItem(delivery) {
  const status = getStatus();
  const version = JSON.stringify([delivery, status]);
  const known = elements.get(delivery.id);
  if (known?.version === version) return known.item;
  const details = createDelivery(delivery, { id: getEndpoint().id, status }, replay);
  const item = h("li", {}, details);
  if (known) {
    const former = known.item.querySelector("details");
    details.open = former.open;
    if (former.contains(document.activeElement)) queueMicrotask(() => details.querySelector("summary").focus());
  }
  elements.set(delivery.id, { version, item });
  return item;
}

async function replay(delivery) {
  const { id } = getEndpoint();
  await replayDelivery(id, delivery);
  if (getEndpoint()?.id !== id) return; // the user has selected another endpoint
  awaitAttempt(delivery.id);
  await loadFirstPage();
}
