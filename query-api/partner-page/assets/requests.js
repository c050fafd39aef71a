import { createCopyButton } from "./copy.js";
import { createText, getElement, h } from "./dom.js";

/** Maximum number of requests in the list. */
const MAX_REQUESTS = 50;

/** Members of bodies that are secret, and are not shown. */
const SECRET_MEMBERS = new Set(["client_secret", "access_token", "secret", "headers"]);

/** Adds a request to the list of requests that this page has sent, newest first. */
export function addRequest({ method, url, headers, body, response, responseBody, durationMs, correlationId }) {
  const curl = createText("curl", formatCurl(method, url, headers, body));
  const details = h(
    "details",
    {},
    h(
      "summary",
      { class: "request" },
      h("span", {}, new Date().toISOString().slice(11, 19)),
      h("span", { class: "what" }, `${method} ${url}`),
      h("span", response.ok ? {} : { class: "bad" }, String(response.status)),
      h("span", {}, `${durationMs} ms`),
    ),
    h("p", { class: "hint" }, `Correlation id ${correlationId ?? "unknown"}`),
    curl,
    h("div", { class: "buttons" }, createCopyButton("Copy curl", curl)),
    createText("Response body", formatBody(responseBody)),
  );
  // The other requests stay in the document, so that none of them loses the focus.
  const list = getElement("requests");
  list.prepend(h("li", {}, details));
  if (list.children.length > MAX_REQUESTS) list.lastElementChild.remove();
}

/** Removes the requests of the former session. */
export function clearRequests() {
  getElement("requests").replaceChildren();
}

/** Formats a command that repeats the request. Variables take the place of secrets. */
function formatCurl(method, url, headers, body) {
  const lines = [`curl -X ${method} ${quote(location.origin + url)}`];
  for (const [name, value] of Object.entries(headers))
    lines.push(name === "Authorization" ? `-H "Authorization: Bearer $TOKEN"` : `-H ${quote(`${name}: ${value}`)}`);
  if (body !== undefined) lines.push(`-d ${quote(formatBody(body))}`);
  return lines.join(" \\\n  ");
}

function quote(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function formatBody(body) {
  return JSON.stringify(body, (name, value) => (SECRET_MEMBERS.has(name) ? "(not shown)" : value), 2);
}
