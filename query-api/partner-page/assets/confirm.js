import { getElement } from "./dom.js";

const dialog = getElement("confirm");

/**
 * Asks the user to confirm an action. Escape and the Cancel button refuse.
 *
 * @param {{ title: string, text: string, accept: string }} question `accept`: label of the button that confirms
 * @returns {Promise<boolean>} true if the user confirmed
 */
export function confirmAction({ title, text, accept }) {
  getElement("confirm-title").textContent = title;
  getElement("confirm-text").textContent = text;
  getElement("confirm-accept").textContent = accept;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "accepted"), { once: true });
  });
}

/** Closes the dialog without confirmation, and removes its text. */
export function closeDialog() {
  dialog.close();
  getElement("confirm-text").textContent = "";
}

getElement("confirm-accept").addEventListener("click", () => dialog.close("accepted"));
getElement("confirm-cancel").addEventListener("click", () => dialog.close());
