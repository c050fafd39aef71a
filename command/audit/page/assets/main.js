import { ask, askLines, credential, Refused } from "./api.js";
import { showCauses } from "./causes.js";
import { showDeliveries } from "./deliveries.js";
import { createDetail } from "./detail.js";
import { byId } from "./dom.js";
import { addressOf, queryOf, questionInAddress, startSearch } from "./search.js";
import { startTabs } from "./tabs.js";
import { createTimeline, markChosen } from "./timeline.js";

/** Number of events per page. */
const PAGE = 500;

/** The current search and its results. */
let question;
let events = [];
let next = null;
let searching = new AbortController();

const status = (text) => {
  byId("status").textContent = text;
};
const alert = (text) => {
  byId("alert").textContent = text;
};

const detail = createDetail({ onChoose: choose, onAlert: refusedEntry });
const timeline = createTimeline(
  (event) => choose(event),
  () => read(),
);
const tabs = startTabs(showTab);
const search = startSearch((asked) => {
  const address = addressOf(asked);
  // Searching for the same again does not change the address, so the search is started here.
  if (address === location.hash) begin(asked);
  else location.hash = address;
});

function choose(event, fromSlider = false) {
  markChosen(event.id);
  detail.show(event).then(() => {
    if (fromSlider) document.getElementById("point")?.focus();
    else if (matchMedia("(max-width: 64rem)").matches) byId("detail-title").focus();
  });
}

/** Starts a search and clears the results of the previous one. */
function begin(asked) {
  question = asked;
  events = [];
  next = null;
  search.show(asked);
  detail.clear();
  timeline.clear();
  tabs.show("timeline");
  byId("results").hidden = false;
  read();
}

/** Loads the first or the next page of events. */
async function read() {
  searching.abort();
  searching = new AbortController();
  const { signal } = searching;
  alert("");
  status("Searching …");
  timeline.offerMore(false);
  const query = { ...queryOf(question), limit: PAGE, progress: true, after: next ?? undefined };
  try {
    const lines = askLines("events", query, signal);
    for (let line = await lines.next(); ; line = await lines.next()) {
      if (line.done) return ended(line.value);
      if (line.value.progress)
        status(`Searching: ${Math.floor(line.value.progress.share * 100)} % of the log`);
      else add(line.value);
    }
  } catch (error) {
    if (signal.aborted) return;
    status("");
    alert(error.message);
    refusedEntry(error);
  }
}

function add(event) {
  events.push(event);
  timeline.add(event);
}

function ended(end) {
  next = end.next;
  if (events.length === 0) timeline.empty();
  timeline.offerMore(next !== null);
  status(
    `${events.length} ${events.length === 1 ? "event" : "events"}${next === null ? "" : " so far, there may be more"}`,
  );
  showTab(tabs.shown());
}

function showTab(name) {
  if (name === "causes") showCauses(events, choose);
  if (name === "deliveries" && question) {
    showDeliveries(question, events, searching.signal).catch((error) => {
      if (searching.signal.aborted) return;
      byId("panel-deliveries").replaceChildren();
      alert(error.message);
      refusedEntry(error);
    });
  }
}

/** An invalid credential ends the session. */
function refusedEntry(error) {
  if (error instanceof Refused && error.status === 401) leave(error.message);
}

async function enter() {
  const { auditor } = await ask("me", {});
  const count = auditor.clinicIds?.length;
  const scope = count === undefined ? "all clinics" : `${count} ${count === 1 ? "clinic" : "clinics"}`;
  byId("who-name").textContent = `${auditor.name}, ${scope}`;
  byId("who").hidden = false;
  byId("sign-in").hidden = true;
  byId("desk").hidden = false;
  byId("subject").focus();
  const asked = questionInAddress();
  if (asked) begin(asked);
}

function leave(reason) {
  searching.abort();
  credential.forget();
  question = undefined;
  events = [];
  detail.clear();
  timeline.clear();
  byId("panel-causes").replaceChildren();
  byId("panel-deliveries").replaceChildren();
  status("");
  alert("");
  for (const id of ["who", "desk", "results"]) byId(id).hidden = true;
  byId("sign-in").hidden = false;
  byId("sign-in-alert").textContent = reason;
  byId("credential").focus();
}

byId("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = byId("credential");
  credential.set(field.value.trim());
  field.value = "";
  byId("sign-in-alert").textContent = "";
  enter().catch((error) => leave(error.message));
});
byId("sign-out").addEventListener("click", () => leave(""));
addEventListener("hashchange", () => {
  const asked = questionInAddress();
  if (asked && credential.get()) begin(asked);
});
if (credential.get()) enter().catch((error) => leave(error.message));
