import { createCopyButton } from "./copy.js";
import { getElement } from "./dom.js";

/**
 * Shows a new signing secret, which the API returns only once, until the user hides it.
 *
 * @param {string} secret
 * @param {string} hint what happens with the former secret
 */
export function showSecret(secret, hint) {
  const field = getElement("secret-value");
  field.value = secret;
  getElement("copy-secret").replaceChildren(createCopyButton("Copy", field));
  getElement("secret-hint").textContent = `Store this secret now. It is not shown again. ${hint}`;
  getElement("secret").hidden = false;
  getElement("secret-title").focus();
}

/** Removes the secret from the page. */
export function hideSecret() {
  getElement("secret-value").value = "";
  getElement("secret-hint").textContent = "";
  getElement("secret").hidden = true;
}

/** Initializes the field and the button that hides the secret. */
export function initSecret() {
  const field = getElement("secret-value");
  field.addEventListener("focus", () => field.select());
  getElement("hide-secret").addEventListener("click", () => {
    hideSecret();
    getElement("endpoint-title").focus();
  });
}
