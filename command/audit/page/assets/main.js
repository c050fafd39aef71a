import { credential, fetchJson, fetchLines, ServiceError } from "./api.js";
import { showCauses } from "./causes.js";
import { showDeliveries } from "./deliveries.js";
import { createDetailView } from "./detail.js";
import { getElement } from "./dom.js";
import { initSearchForm, readSearchFromUrl, toQueryParameters, toUrlFragment } from "./search.js";
import { initTabs } from "./tabs.js";
import { createTimeline, markSelected } from "./timeline.js";

/** Number of events that one request loads. */
const PAGE_SIZE = 500;

/** The current search and its results. */
let currentSearch;
let events = [];
let nextPosition = null;
let searchController = new AbortController();

const showStatus = (text) => {
  getElement("status").textContent = text;
};
const showAlert = (text) => {
  getElement("alert").textContent = text;
};

const detail = createDetailView({ onSelect: selectEvent, onError: signOutIfUnauthorized });
const timeline = createTimeline(selectEvent, loadPage);
const tabs = initTabs(showTab);
const searchForm = initSearchForm((search) => {
  const fragment = toUrlFragment(search);
  // Repeating a search does not change the URL, so no `hashchange` event would start the search.
  if (fragment === location.hash) startSearch(search);
  else location.hash = fragment;
});

function selectEvent(event, isFromSlider = false) {
  markSelected(event.id);
  detail.show(event).then(() => {
    if (isFromSlider) document.getElementById("point")?.focus();
    else if (matchMedia("(max-width: 64rem)").matches) getElement("detail-title").focus();
  });
}

/** Starts a search and clears the results of the previous search. */
function startSearch(search) {
  currentSearch = search;
  events = [];
  nextPosition = null;
  searchForm.show(search);
  detail.clear();
  timeline.clear();
  tabs.show("timeline");
  getElement("results").hidden = false;
  loadPage();
}

/** Loads the next page of events, or the first page of a new search. */
async function loadPage() {
  searchController.abort();
  searchController = new AbortController();
  const { signal } = searchController;
  showAlert("");
  showStatus("Searching …");
  timeline.offerMore(false);
  const position = { limit: PAGE_SIZE, after: nextPosition ?? undefined };
  const query = { ...toQueryParameters(currentSearch), ...position, progress: true };
  try {
    const lines = fetchLines("events", query, signal);
    for (let line = await lines.next(); ; line = await lines.next()) {
      if (line.done) return endPage(line.value);
      if (line.value.progress) showStatus(`Searching: ${Math.floor(line.value.progress.share * 100)} % of the log`);
      else addEvent(line.value);
    }
  } catch (error) {
    if (signal.aborted) return;
    showStatus("");
    showAlert(error.message);
    signOutIfUnauthorized(error);
  }
}

function addEvent(event) {
  events.push(event);
  timeline.add(event);
}

/** Shows the number of events after the last line of a page. */
function endPage({ next }) {
  nextPosition = next;
  if (events.length === 0) timeline.showEmpty();
  timeline.offerMore(next !== null);
  const count = `${events.length} ${events.length === 1 ? "event" : "events"}`;
  showStatus(next === null ? count : `${count} so far; there may be more`);
  showTab(tabs.getShownTab());
}

function showTab(name) {
  if (name === "causes") showCauses(events, selectEvent);
  if (name === "deliveries" && currentSearch) {
    showDeliveries(currentSearch, events, searchController.signal).catch((error) => {
      if (searchController.signal.aborted) return;
      getElement("panel-deliveries").replaceChildren();
      showAlert(error.message);
      signOutIfUnauthorized(error);
    });
  }
}

/** Signs the auditor out if the service refused the credential. */
function signOutIfUnauthorized(error) {
  if (error instanceof ServiceError && error.status === 401) signOut(error.message);
}

async function signIn() {
  const { auditor } = await fetchJson("me", {});
  const count = auditor.clinicIds?.length;
  const scope = count === undefined ? "all clinics" : `${count} ${count === 1 ? "clinic" : "clinics"}`;
  getElement("who-name").textContent = `${auditor.name}, ${scope}`;
  getElement("who").hidden = false;
  getElement("sign-in").hidden = true;
  getElement("desk").hidden = false;
  getElement("subject").focus();
  const search = readSearchFromUrl();
  if (search) startSearch(search);
}

function signOut(reason) {
  searchController.abort();
  credential.remove();
  currentSearch = undefined;
  events = [];
  detail.clear();
  timeline.clear();
  getElement("panel-causes").replaceChildren();
  getElement("panel-deliveries").replaceChildren();
  showStatus("");
  showAlert("");
  for (const id of ["who", "desk", "results"]) getElement(id).hidden = true;
  getElement("sign-in").hidden = false;
  getElement("sign-in-alert").textContent = reason;
  getElement("credential").focus();
}

getElement("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = getElement("credential");
  credential.set(field.value.trim());
  field.value = "";
  getElement("sign-in-alert").textContent = "";
  signIn().catch((error) => signOut(error.message));
});
getElement("sign-out").addEventListener("click", () => signOut(""));
addEventListener("hashchange", () => {
  const search = readSearchFromUrl();
  if (search && credential.get()) startSearch(search);
});
if (credential.get()) signIn().catch((error) => signOut(error.message));
