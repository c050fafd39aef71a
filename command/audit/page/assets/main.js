import { initAccesses, showAccesses } from "./accesses.js";
import { clearError, onSubmit, runAction, showProgress } from "./actions.js";
import { credential, fetchJson, fetchList, STORAGE_KEYS, signOut } from "./api.js";
import { clearClinicState, initClinicState } from "./clinic-state.js";
import {
  countClinics,
  getClinicName,
  getSelectedClinicId,
  getTimeZone,
  initClinicSelect,
  loadClinics,
  selectClinic,
} from "./clinics.js";
import { showDeliveries } from "./deliveries.js";
import { clearDetail, showDetail } from "./detail.js";
import { createEmptyText, getElement, h, isNarrow, markCurrent } from "./dom.js";
import { initExport, initVerification, setKeyThumbprint } from "./export.js";
import { formatCount } from "./format.js";
import { clearMatches, findAppointments, findByName, foldMatches } from "./matches.js";
import { createNamedId } from "./names.js";
import {
  describeFilters,
  fillForm,
  readField,
  readForm,
  readSearchFromUrl,
  showPlaceholder,
  toQueryParameters,
  toUrlFragment,
} from "./search.js";
import { showReason } from "./sign-out.js";
import { initTabs } from "./tabs.js";
import { splitStreamName } from "./text.js";
import { createTimeline, showCauses } from "./timeline.js";

/** Page size and texts of a list, for the latest events and for searches. */
const LATEST = {
  limit: 50,
  empty: "No events of this clinic.",
  more: "Show earlier events",
  order: "the newest first, by the time at which they were stored",
};
const SEARCH = {
  limit: 500,
  empty: "No visible events match this search.",
  more: "Show more",
  order: "in the order in which they were stored",
};

/** Views of a search, the default first. */
const VIEWS = { timeline: "Timeline", causes: "Causes", deliveries: "Deliveries", accesses: "Accesses" };

const SEARCHES = {
  name: "Name",
  appointment: "Appointment",
  actor: "Actor and day",
  id: "Id",
  state: "Clinic at a time",
  export: "Export",
};

/** Ids of the elements whose content is loaded only after the events of a search. */
const LOADED_IDS = ["panel-causes", "panel-deliveries", "accesses-body"];

/** The current search and its results. */
let currentSearch;
let events = [];
let nextPosition = null;
let selectedId;
let isLoading = false;
let searchController = new AbortController();
let viewController = new AbortController();

const timeline = createTimeline(selectEvent, ({ currentTarget }) => loadPage(currentTarget));
const tabs = initTabs("views", VIEWS, showTab);
const searchTabs = initTabs("searches", SEARCHES, () => undefined);
initAccesses(() => showTab("accesses"));
initExport();
initClinicState();
initVerification();
const find = (formId, action) => onSubmit(formId, "search-alert", action, { isLatest: true });
find("name-form", ({ submitter }) => {
  const clinic = submitter?.id === "search-clinic" ? getSelectedClinicId() : undefined;
  return findByName({ name: readField("name"), kind: readField("name-kind") || undefined, clinic });
});
find("appointment-form", () => {
  const [day, time] = [readField("appointment-day"), readField("appointment-time")];
  return findAppointments({ clinic: getSelectedClinicId(), day, time });
});
find("actor-form", () => {
  clearMatches();
  const filters = { actor: readField("actor-id"), day: readField("actor-day") };
  goToSearch({ kind: "clinic", id: getSelectedClinicId(), ...filters });
});
find("search-form", () => goToSearch(readForm()));
getElement("kind").addEventListener("change", showPlaceholder);

/** Starts a search and changes the URL, so that the Back button returns to the previous search. */
function goToSearch(search) {
  const fragment = toUrlFragment(search);
  // Repeating a search does not change the URL, so no `hashchange` event would start the search.
  if (fragment === location.hash) startSearch(search);
  else location.hash = fragment;
}

/** Marks the selected event in all views. */
function markSelected() {
  markCurrent(document.querySelectorAll(".event"), selectedId);
}

async function selectEvent(event, isFromSlider = false) {
  selectedId = event.id;
  markSelected();
  await showDetail(event, events.length, selectEvent);
  if (isFromSlider) document.getElementById("point")?.focus();
  else if (isNarrow()) getElement("detail-title").focus();
}

/** Starts a search and clears the results of the previous search. */
function startSearch(search) {
  currentSearch = search;
  events = [];
  nextPosition = null;
  selectedId = undefined;
  if (search.kind === "latest" || search.kind === "clinic") selectClinic(search.id);
  fillForm(search);
  clearDetail();
  timeline.clear();
  showTitle(true);
  clearError("search-alert");
  getElement("results").hidden = false;
  loadPage();
  for (const id of LOADED_IDS) getElement(id).replaceChildren("Loading …");
  tabs.show(Object.hasOwn(VIEWS, search.view) ? search.view : "timeline");
}

/** Loads the next page of events, or the first page of a new search. `button` is the button that the user clicked. */
function loadPage(button) {
  return runAction({ button, alertId: "alert", isRepeatable: true }, async () => {
    searchController.abort();
    viewController.abort();
    searchController = new AbortController();
    const { signal } = searchController;
    const isLatest = currentSearch.kind === "latest";
    const { limit, ...texts } = isLatest ? LATEST : SEARCH;
    const query = isLatest ? { clinic: currentSearch.id, order: "newest" } : toQueryParameters(currentSearch);
    isLoading = true;
    getElement("panel-timeline").ariaBusy = "true";
    getElement("status").textContent = isLatest ? "Loading the latest events …" : "Searching …";
    let page;
    try {
      page = await fetchList("events", { ...query, limit, after: nextPosition ?? undefined }, signal);
      events.push(...page.items);
      nextPosition = page.end.next;
    } finally {
      if (!signal.aborted) endPage(page?.items, texts);
    }
    showTab(tabs.getShownTab());
  });
}

/**
 * Shows the events of a page, and the number of all listed events.
 *
 * @param {object[] | undefined} items undefined if the page could not be loaded
 */
function endPage(items, { empty, more, order }) {
  isLoading = false;
  getElement("panel-timeline").ariaBusy = null;
  const clinicIds = new Set(events.flatMap(({ clinicId }) => clinicId ?? []));
  if (clinicIds.size === 1) {
    const formerZone = getTimeZone();
    selectClinic([...clinicIds][0]);
    if (getTimeZone() !== formerZone) fillForm(currentSearch);
  }
  showTitle(false);
  timeline.add(items ?? []);
  timeline.offerMore(nextPosition !== null, more);
  const suffix = events.length > 1 ? `, ${order}` : "";
  const moreText = nextPosition === null ? "" : "; there may be more";
  getElement("status").textContent = `${formatCount(events.length, "event")}${suffix}${moreText}`;
  if (events.length === 0) {
    for (const id of LOADED_IDS) getElement(id).replaceChildren();
    if (items) timeline.showEmpty(empty);
    else getElement("status").textContent = "";
  }
  // The search by actor suggests the actors of the listed events.
  const actors = new Set(events.flatMap(({ actor }) => (actor ? [`${actor.type}:${actor.id}`] : [])));
  getElement("known-actors").replaceChildren(...[...actors].map((value) => h("option", { value })));
}

/**
 * Shows the subject of the search above the list and the accesses, with a link back to the latest events.
 *
 * @param {boolean} isSearching if true, the link is hidden, because the clinic of the search may still be unknown
 */
function showTitle(isSearching) {
  const { kind, id } = currentSearch;
  const isLatest = kind === "latest";
  const [category, streamId] = splitStreamName(id);
  const describeSubject = () => {
    if (isLatest) return [getClinicName(id)];
    if (kind === "stream") return [`${category} `, createNamedId(streamId, false)];
    return [kind === "correlation" ? "request " : `${kind} `, createNamedId(id, false)];
  };
  const filters = describeFilters(currentSearch);
  getElement("list-title").replaceChildren(
    isLatest ? "Latest events of " : "Events of ",
    ...describeSubject(),
    filters ? h("span", { class: "filters" }, `, ${filters}`) : "",
  );
  const clinicId = getSelectedClinicId();
  const link = getElement("latest-link");
  link.hidden = isLatest || clinicId === "" || isSearching;
  link.href = toUrlFragment({ kind: "latest", id: clinicId });
  link.textContent = countClinics() > 1 ? `Latest events of ${getClinicName(clinicId)}` : "Latest events";
  getElement("accesses-hint").replaceChildren("Who read or exported data of ", ...describeSubject());
}

/** Shows the content of a tab. Does nothing until the events are loaded, because the content depends on them. */
function showTab(name) {
  if (isLoading || !currentSearch) return;
  viewController.abort();
  viewController = new AbortController();
  const { signal } = viewController;
  if (name === "causes") {
    showCauses(events, selectEvent);
    markSelected();
  }
  const [body, load] =
    {
      deliveries: [getElement("panel-deliveries"), () => showDeliveries(currentSearch, events, signal)],
      accesses: [getElement("accesses-body"), () => showAccesses(currentSearch, signal)],
    }[name] ?? [];
  if (!load) return;
  runAction({ alertId: "alert", isRepeatable: true }, () => showProgress(body, createEmptyText("Loading …"), load));
}

async function signIn() {
  getElement("sign-in-status").textContent = "Signing in …";
  try {
    const { auditor, keyThumbprint } = await fetchJson("me", {});
    setKeyThumbprint(keyThumbprint);
    await loadClinics(auditor.clinicIds);
    const scope = auditor.clinicIds === null ? "all clinics" : formatCount(auditor.clinicIds.length, "clinic");
    getElement("who-name").textContent = `${auditor.name}, ${scope}`;
  } catch (error) {
    credential.remove();
    getElement("credential").focus();
    throw error;
  } finally {
    getElement("sign-in-status").textContent = "";
  }
  for (const id of ["who", "desk"]) getElement(id).hidden = false;
  getElement("sign-in").hidden = true;
  const isOneClinic = countClinics() < 2;
  getElement("search-all").textContent = isOneClinic ? "Search" : "Search all my clinics";
  getElement("search-clinic").hidden = isOneClinic;
  searchTabs.show("name");
  getElement("name").focus();
  const clinicId = getSelectedClinicId();
  const search = readSearchFromUrl() ?? (clinicId === "" ? undefined : { kind: "latest", id: clinicId });
  getElement("list-title").textContent = "";
  if (!search) {
    getElement("status").textContent = "Search by id, because no clinic can be selected.";
    return;
  }
  history.replaceState(null, "", toUrlFragment(search));
  startSearch(search);
}

onSubmit("sign-in-form", "sign-in-alert", () => {
  const field = getElement("credential");
  credential.set(field.value.trim());
  field.value = "";
  return signIn();
});
getElement("sign-out").addEventListener("click", () => signOut(""));
getElement("back").addEventListener("click", () => {
  const listed = `[role="tabpanel"]:not([hidden]) .event[aria-current]`;
  (document.querySelector(listed) ?? getElement("list-title")).focus();
});
initClinicSelect((id) => {
  clearMatches();
  clearClinicState();
  clearError("search-alert");
  goToSearch({ kind: "latest", id });
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
showReason(STORAGE_KEYS, "credential");
if (credential.get()) runAction({ alertId: "sign-in-alert" }, signIn);
