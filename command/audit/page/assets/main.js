import { initAccesses, showAccesses } from "./accesses.js";
import { credential, fetchJson, fetchList, ServiceError } from "./api.js";
import { showCauses } from "./causes.js";
import { clearClinicState, initClinicState } from "./clinic-state.js";
import {
  clearClinics,
  countClinics,
  getSelectedClinicId,
  initClinicSelect,
  loadClinics,
  selectClinic,
} from "./clinics.js";
import { showDeliveries } from "./deliveries.js";
import { createDetailView } from "./detail.js";
import { getElement, h, isNarrow } from "./dom.js";
import { clearExport, initExport, setKeyThumbprint } from "./export.js";
import { clearMatches, findAppointments, findByName, foldMatches } from "./matches.js";
import { clearNames } from "./names.js";
import { addToSchedules, clearSchedules } from "./schedules.js";
import {
  clearFinderForms,
  initFinderForms,
  initIdForm,
  readSearchFromUrl,
  toQueryParameters,
  toUrlFragment,
} from "./search.js";
import { initTabs } from "./tabs.js";
import { createTimeline, markSelected, showSchedules } from "./timeline.js";
import { showTitle } from "./title.js";
import { initVerification } from "./verify.js";

/** Number of events that one request loads. */
const PAGE_SIZE = 500;
const LATEST_PAGE_SIZE = 50;

const LATEST_TEXTS = {
  empty: "No events of this clinic.",
  more: "Show earlier events",
  order: "the newest first, by the time at which they were stored",
};
const SEARCH_TEXTS = {
  empty: "No visible events match this search.",
  more: "Show more",
  order: "in the order in which they were stored",
};

/** Views of a search, the default first. */
const VIEWS = ["timeline", "causes", "deliveries", "accesses"];

/** The current search and its results. */
let currentSearch;
let events = [];
let nextPosition = null;
let isLoading = false;
let searchController = new AbortController();

const showStatus = (text) => {
  getElement("status").textContent = text;
};

/** Shows an error, or hides the last error if the text is empty. */
function showAlert(text) {
  getElement("alert").textContent = text;
  getElement("failure").hidden = text === "";
}

/** Shows an error of a search above the list, or hides the last one if the text is empty. */
const showSearchAlert = (text) => {
  getElement("search-alert").textContent = text;
};

const detail = createDetailView({
  onSelect: selectEvent,
  onError: signOutIfUnauthorized,
  countEvents: () => events.length,
});
const timeline = createTimeline(selectEvent, loadPage);
const tabs = initTabs(VIEWS, showTab);
const searchTabs = initTabs(["name", "appointment", "actor", "id", "state", "export"], () => {});
initAccesses(() => showTab("accesses"));
initExport(handleSearchError);
initClinicState(() => showSearchAlert(""), handleSearchError);
initVerification();
const idForm = initIdForm(goToSearch);
initFinderForms({
  onName: ({ isEverywhere, kind, ...query }) => {
    showSearchAlert("");
    const clinic = isEverywhere ? undefined : getSelectedClinicId();
    findByName({ ...query, kind: kind || undefined, clinic }, handleSearchError);
  },
  onAppointment: (query) => {
    showSearchAlert("");
    findAppointments({ clinic: getSelectedClinicId(), ...query }, handleSearchError);
  },
  onActor: (filters) => {
    clearMatches();
    goToSearch({ kind: "clinic", id: getSelectedClinicId(), ...filters });
  },
});

/** Starts a search and changes the URL, so that the Back button returns to the previous search. */
function goToSearch(search) {
  const fragment = toUrlFragment(search);
  // Repeating a search does not change the URL, so no `hashchange` event would start the search.
  if (fragment === location.hash) startSearch(search);
  else location.hash = fragment;
}

function selectEvent(event, isFromSlider = false) {
  markSelected(event.id);
  detail.show(event).then(() => {
    if (isFromSlider) document.getElementById("point")?.focus();
    else if (isNarrow()) getElement("detail-title").focus();
  });
}

/** Starts a search and clears the results of the previous search. */
function startSearch(search) {
  currentSearch = search;
  events = [];
  clearSchedules();
  nextPosition = null;
  if (search.kind === "latest" || search.kind === "clinic") selectClinic(search.id);
  idForm.show(search);
  detail.clear();
  timeline.clear();
  showTitle(search, true);
  showSearchAlert("");
  getElement("results").hidden = false;
  loadPage();
  fillViews("Loading …");
  tabs.show(VIEWS.includes(search.view) ? search.view : VIEWS[0]);
}

/** Loads the next page of events, or the first page of a new search. */
async function loadPage() {
  searchController.abort();
  searchController = new AbortController();
  const { signal } = searchController;
  isLoading = true;
  showAlert("");
  timeline.offerMore(false);
  getElement("panel-timeline").setAttribute("aria-busy", "true");
  try {
    const isLatest = currentSearch.kind === "latest";
    showStatus(isLatest ? "Loading the latest events …" : "Searching …");
    const query = isLatest ? { clinic: currentSearch.id, order: "newest" } : toQueryParameters(currentSearch);
    const page = { limit: isLatest ? LATEST_PAGE_SIZE : PAGE_SIZE, after: nextPosition ?? undefined };
    const { items, end } = await fetchList("events", { ...query, ...page }, signal);
    for (const event of items) addEvent(event);
    endPage(end.next, isLatest ? LATEST_TEXTS : SEARCH_TEXTS);
  } catch (error) {
    if (signal.aborted) return;
    isLoading = false;
    if (events.length > 0) endPage(nextPosition, { more: "Try again" });
    else {
      fillViews("");
      showStatus("");
      showTitle(currentSearch, false);
    }
    handleError(error);
  } finally {
    if (!signal.aborted) getElement("panel-timeline").removeAttribute("aria-busy");
  }
}

/** Replaces the content of all views except the timeline. */
function fillViews(text) {
  for (const id of ["panel-causes", "panel-deliveries", "accesses-body"]) getElement(id).replaceChildren(text);
}

function addEvent(event) {
  events.push(event);
  addToSchedules(event);
  timeline.add(event);
}

/** Shows the number of events after the last line of a page. */
function endPage(next, { empty, more, order }) {
  nextPosition = next;
  isLoading = false;
  const clinicIds = new Set(events.flatMap(({ clinicId }) => clinicId ?? []));
  if (clinicIds.size === 1) selectClinic([...clinicIds][0]);
  showTitle(currentSearch, false);
  if (events.length === 0) timeline.showEmpty(empty);
  timeline.offerMore(next !== null, more);
  const count = `${events.length} ${events.length === 1 ? "event" : "events"}`;
  const suffix = order && events.length > 1 ? `, ${order}` : "";
  showStatus(`${count}${suffix}${next === null ? "" : "; there may be more"}`);
  showSchedules();
  suggestActors();
  showTab(tabs.getShownTab());
}

/** Offers the actors of the listed events for the search by actor. */
function suggestActors() {
  const actors = new Set(events.flatMap(({ actor }) => (actor ? [`${actor.type}:${actor.id}`] : [])));
  getElement("known-actors").replaceChildren(...[...actors].map((value) => h("option", { value })));
}

function showTab(name) {
  // The views depend on the listed events, and on their clinic's time zone. They are shown after the last event.
  if (isLoading) return;
  if (name === "causes") showCauses(events, selectEvent);
  const { signal } = searchController;
  const load = {
    deliveries: () => showDeliveries(currentSearch, events, signal),
    accesses: () => showAccesses(currentSearch, signal),
  }[name];
  if (!load || !currentSearch) return;
  showAlert("");
  load().catch((error) => {
    if (signal.aborted || error.name === "AbortError") return;
    getElement(name === "accesses" ? "accesses-body" : "panel-deliveries").replaceChildren();
    handleError(error);
  });
}

/** Shows an error of the list. Signs the auditor out if the service refused the credential. */
function handleError(error) {
  showAlert(error.message);
  signOutIfUnauthorized(error);
}

/** Shows an error of a form above the list, as {@link handleError}. */
function handleSearchError(error) {
  showSearchAlert(error.message);
  signOutIfUnauthorized(error);
}

function signOutIfUnauthorized(error) {
  if (error instanceof ServiceError && error.status === 401) signOut(error.message);
}

async function signIn() {
  const { auditor, keyThumbprint } = await fetchJson("me", {});
  setKeyThumbprint(keyThumbprint);
  const namesProblem = await loadClinics(auditor.clinicIds);
  const count = auditor.clinicIds?.length;
  const scope = count === undefined ? "all clinics" : `${count} ${count === 1 ? "clinic" : "clinics"}`;
  getElement("who-name").textContent = `${auditor.name}, ${scope}`;
  getElement("who").hidden = false;
  getElement("sign-in").hidden = true;
  getElement("desk").hidden = false;
  getElement("names-alert").textContent = namesProblem;
  const isOneClinic = countClinics() < 2;
  getElement("search-all").textContent = isOneClinic ? "Search" : "Search all my clinics";
  getElement("search-clinic").hidden = isOneClinic;
  searchTabs.show("name");
  getElement("name").focus();
  const clinicId = getSelectedClinicId();
  const search = readSearchFromUrl() ?? (clinicId === "" ? undefined : { kind: "latest", id: clinicId });
  getElement("list-title").textContent = "";
  if (!search) return showStatus("Search by id, because no clinic can be selected.");
  history.replaceState(null, "", toUrlFragment(search));
  startSearch(search);
}

function signOut(reason) {
  searchController.abort();
  credential.remove();
  currentSearch = undefined;
  events = [];
  clearSchedules();
  detail.clear();
  timeline.clear();
  clearMatches();
  clearClinics();
  clearNames();
  clearFinderForms();
  clearExport();
  clearClinicState();
  showSearchAlert("");
  fillViews("");
  for (const id of ["accesses-hint", "list-title", "known-actors"]) getElement(id).replaceChildren();
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
  getElement("sign-in-status").textContent = "Signing in …";
  signIn()
    .catch((error) => signOut(error.message))
    .finally(() => {
      getElement("sign-in-status").textContent = "";
    });
});
getElement("sign-out").addEventListener("click", () => signOut(""));
getElement("back").addEventListener("click", () => {
  const listed = `[role="tabpanel"]:not([hidden]) .event[aria-current]`;
  (document.querySelector(listed) ?? getElement("list-title")).focus();
});
getElement("retry").addEventListener("click", () => currentSearch && startSearch(currentSearch));
initClinicSelect((id) => {
  clearMatches();
  clearClinicState();
  showSearchAlert("");
  if (credential.get()) goToSearch({ kind: "latest", id });
});
addEventListener("hashchange", () => {
  const search = readSearchFromUrl();
  if (!search || !credential.get()) return;
  const isChosen = getElement("matches").contains(document.activeElement);
  foldMatches();
  startSearch(search);
  // On a narrow screen, the list is below the matches.
  if (isNarrow() || isChosen) getElement("list-title").focus();
});
if (credential.get()) signIn().catch((error) => signOut(error.message));
