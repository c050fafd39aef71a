import { getElement } from "./dom.js";

/** Key in sessionStorage of the reason for the sign-out that the page shows after it was loaded again. */
const REASON_KEY = "sign-out reason";

/**
 * Removes everything of the session: the given keys from the storage of the tab, and all else by loading the page again.
 *
 * @param {string[]} storageKeys
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
