import { getElement } from "./dom.js";

const dialog = getElement("confirm");

/**
 * Asks the user to confirm an action. The other button and Escape cancel it.
 *
 * @param {{ title: string, text: string, accept: string, isFinal?: boolean, input?: { label: string, value: string } }}
 *   question `accept`: label of the button that confirms; `isFinal`: the action cannot be undone; `input`: label and
 *   value of a local time that the user can change
 * @returns {Promise<boolean | string>} true or the chosen time if the user confirmed; otherwise false
 */
export function confirmAction({ title, text, accept, isFinal = false, input }) {
  const field = getElement("confirm-input");
  getElement("confirm-field").hidden = !input;
  getElement("confirm-label").textContent = input?.label ?? "";
  field.value = input?.value ?? "";
  getElement("confirm-title").textContent = title;
  getElement("confirm-text").textContent = text;
  Object.assign(getElement("confirm-accept"), { textContent: accept, className: isFinal ? "danger" : "primary" });
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "accepted" && (!input || field.value)), {
      once: true,
    });
  });
}

/** Closes the dialog without confirmation, and removes its text. */
export function closeDialog() {
  dialog.close();
  getElement("confirm-text").textContent = "";
}

getElement("confirm-accept").addEventListener("click", () => dialog.close("accepted"));
getElement("confirm-cancel").addEventListener("click", () => dialog.close());
