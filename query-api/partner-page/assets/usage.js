import { getElement } from "./dom.js";

/** Share of the limit below which the remaining requests are emphasized. */
const LOW_SHARE = 0.1;

let resetTimer;

/**
 * Shows how many requests the rate limit of the installation permits in the current window. Ignores responses that were
 * counted against another limit.
 */
export function showUsage({ url, response: { status, headers } }) {
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

/** Removes the usage of the former session. */
export function clearUsage() {
  clearTimeout(resetTimer);
  const element = getElement("usage");
  element.textContent = "";
  element.removeAttribute("title");
}

function showRemaining(limit, remaining, resetAt) {
  const element = getElement("usage");
  element.textContent = `${remaining} of ${limit} requests/min left`;
  element.classList.toggle("low", remaining < limit * LOW_SHARE);
  const windowText = resetAt ? ` The count starts again at ${resetAt.toLocaleTimeString()}.` : "";
  element.title = `Rate limit of this installation.${windowText}`;
}
