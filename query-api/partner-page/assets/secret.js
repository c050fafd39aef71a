import { getElement } from "./dom.js";

/**
 * Shows a new signing secret, which the API returns only once, until the user hides it.
 *
 * @param {string} secret
 * @param {string} hint what happens with the former secret
 */
export function showSecret(secret, hint) {
  getElement("secret-value").value = secret;
  getElement("secret-hint").textContent = `Store this secret now. It is not shown again. ${hint}`;
  getElement("secret-status").textContent = "";
  getElement("secret").hidden = false;
  getElement("secret-title").focus();
}

/** Removes the secret from the page. */
export function hideSecret() {
  getElement("secret-value").value = "";
  getElement("secret-hint").textContent = "";
  getElement("secret").hidden = true;
}

/** Initializes the buttons that copy and hide the secret. */
export function initSecret() {
  const field = getElement("secret-value");
  const status = getElement("secret-status");
  field.addEventListener("focus", () => field.select());
  getElement("copy-secret").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(field.value);
      status.textContent = "Copied.";
    } catch {
      // The browser has no clipboard without TLS, or the user has not permitted access.
      field.select();
      status.textContent = "The browser does not permit copying. Press Ctrl+C.";
    }
  });
  getElement("hide-secret").addEventListener("click", () => {
    hideSecret();
    getElement("endpoint-title").focus();
  });
}
