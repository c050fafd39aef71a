import { createCopyButton } from "./copy.js";
import { createDocLink, createHint, createText, getElement, h } from "./dom.js";

/** Maximum number of requests in the list. */
const MAX_REQUESTS = 50;

/** Share of the limit below which the remaining requests are emphasized. */
const LOW_SHARE = 0.1;

let resetTimer;

/** Members of bodies that can contain secrets. The page does not show their values. */
const SECRET_MEMBERS = new Set(["client_secret", "access_token", "secret", "headers"]);

/**
 * Shows the rest of the rate limit after a request of this page. Adds the request to the list, unless it was automatic.
 */
export function showExchange(exchange) {
  showUsage(exchange);
  if (!exchange.isAutomatic) addRequest(exchange);
}

/** Adds a request to the list of requests that this page has sent, newest first. */
function addRequest({ method, url, headers, body, response, responseBody, durationMs, correlationId }) {
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
    createHint(`Correlation id ${correlationId ?? "unknown"} `, createDocLink(responseBody.docUrl)),
    curl,
    h("div", { class: "buttons" }, createCopyButton("Copy curl", curl)),
    createText("Response body", formatBody(responseBody)),
  );
  // The other requests stay in the document, so that none of them loses the focus.
  const list = getElement("requests");
  list.prepend(h("li", {}, details));
  if (list.children.length > MAX_REQUESTS) list.lastElementChild.remove();
}

/** Formats a curl command for the request. Replaces the token with a variable, and hides other secrets. */
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

/**
 * Shows how many requests the rate limit of the installation permits in the current window. Ignores responses that were
 * counted against another limit.
 */
function showUsage({ url, response: { status, headers } }) {
  const isCountedElsewhere =
    status === 401 || status === 403 || /\/(oauth\/token|installations|sandbox\/reset)$/.test(url);
  const limit = Number(headers.get("RateLimit-Limit"));
  if (isCountedElsewhere || !limit) return;
  const remaining = Number(headers.get("RateLimit-Remaining"));
  const resetAt = new Date(headers.get("RateLimit-Reset"));
  showRemaining(limit, remaining, resetAt);
  clearTimeout(resetTimer);
  resetTimer = setTimeout(() => showRemaining(limit, limit), Math.max(0, resetAt.getTime() - Date.now()));
}

function showRemaining(limit, remaining, resetAt) {
  const element = getElement("usage");
  element.textContent = `${remaining} of ${limit} requests/min left`;
  element.classList.toggle("low", remaining < limit * LOW_SHARE);
  const windowText = resetAt ? ` The count starts again at ${resetAt.toLocaleTimeString()}.` : "";
  element.title = `Rate limit of this installation.${windowText}`;
}
