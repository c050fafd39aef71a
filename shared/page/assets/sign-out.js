import { getElement } from "./dom.js";

/** Key in sessionStorage of the reason for a sign-out. The page shows the reason after it has reloaded. */
const REASON_KEY = "sign-out reason";

/**
 * Ends the session. Removes the given keys from sessionStorage, and reloads the page to discard all other state.
 *
 * @param {string} reason empty if the user has signed out
 */
export function leave(storageKeys, reason) {
  document.body.hidden = true;
  for (const key of storageKeys) sessionStorage.removeItem(key);
  sessionStorage.setItem(REASON_KEY, reason);
  location.reload();
}

/** After a sign-out, shows its reason and moves the focus to the given field. */
export function showReason(storageKeys, fieldId) {
  const reason = sessionStorage.getItem(REASON_KEY);
  if (reason === null) return;
  // Until the page was left, responses to earlier requests can have stored the keys again.
  for (const key of [...storageKeys, REASON_KEY]) sessionStorage.removeItem(key);
  getElement("sign-in-alert").textContent = reason;
  getElement(fieldId).focus();
}
