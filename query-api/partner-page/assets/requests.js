import { createEmptyText, createTable, getElement, h } from "./dom.js";

/** Maximum number of requests in the list. */
const MAX_REQUESTS = 50;

let rows = [];

/** Adds a request to the list of requests that this page has sent, newest first. */
export function addRequest({ method, url, response, durationMs, correlationId }) {
  const time = new Date().toISOString().slice(11, 19);
  const row = h(
    "tr",
    {},
    h("td", {}, time),
    h("td", {}, `${method} ${url}`),
    h("td", response.ok ? {} : { class: "bad" }, String(response.status)),
    h("td", {}, `${durationMs} ms`),
    h("td", {}, correlationId ?? ""),
  );
  rows = [row, ...rows].slice(0, MAX_REQUESTS);
  showRequests();
}

/** Removes the requests of the former session. */
export function clearRequests() {
  rows = [];
  showRequests();
}

function showRequests() {
  const titles = ["Time (UTC)", "Request", "Status", "Duration", "Correlation id"];
  const content = rows.length === 0 ? createEmptyText("No requests yet.") : createTable("Requests", titles, rows);
  getElement("requests-body").replaceChildren(content);
}
