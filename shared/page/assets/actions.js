import { createButton, createDocLink, getElement, h } from "./dom.js";
import { ApiError } from "./http.js";

/**
 * Runs an action, for example after a click on a button. Shows an error of the API in an alert. While the action runs,
 * further clicks on the button do nothing. The button is not disabled, because a disabled button loses the focus.
 *
 * @param {{ button?: HTMLElement | null, alertId: string, isRepeatable?: boolean }} controls `isRepeatable`: the alert
 *   has a button that runs the action again
 * @param {() => Promise<void>} action must settle when its outcome is shown, without waiting for lists to reload.
 *   Otherwise, the button ignores clicks although the action seems to have ended
 */
export async function runAction({ button, alertId, isRepeatable = false }, action) {
  if (button?.ariaDisabled === "true") return;
  clearError(alertId);
  button?.setAttribute("aria-disabled", "true");
  try {
    await action();
  } catch (error) {
    if (error.name === "AbortError") return; // the user has started another action, or has left what this one is about
    showError(alertId, error);
    if (isRepeatable) getElement(alertId).append(createRetryButton(() => runAction({ alertId, isRepeatable }, action)));
    if (!(error instanceof ApiError)) throw error;
  } finally {
    button?.removeAttribute("aria-disabled");
  }
}

function createRetryButton(retry) {
  const onclick = () => {
    getElement("main").focus(); // the button is removed
    retry();
  };
  return h("div", { class: "buttons" }, createButton("Try again", { onclick }));
}

/**
 * Runs an action each time the form with the given id is submitted.
 *
 * @param {{ isLatest?: boolean }} options `isLatest`: the form can be submitted again while the action runs
 */
export function onSubmit(formId, alertId, action, { isLatest = false } = {}) {
  const form = getElement(formId);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = isLatest ? null : form.querySelector('[type="submit"]');
    runAction({ button, alertId }, () => action(event));
  });
}

/** Shows a text in an element while an action runs. Removes the text if the action fails. */
export async function showProgress(element, text, action) {
  element.replaceChildren(text);
  try {
    return await action();
  } catch (error) {
    // Otherwise, the element may already show the progress of another action.
    if (error.name !== "AbortError") element.replaceChildren();
    throw error;
  }
}

/** Runs an action each time the button with the given id is clicked. */
export function onClick(buttonId, alertId, action) {
  const button = getElement(buttonId);
  button.addEventListener("click", () => runAction({ button, alertId }, action));
}

/**
 * Shows an error with the correlation id that the operator needs to find the request. In a form, shows it next to the
 * refused field and moves the focus to the field.
 */
export function showError(alertId, { message, correlationId, docUrl, member }) {
  const alert = getElement(alertId);
  const control = findRefusedControl(alert, member);
  const group = control?.closest(".field, .choices, .buttons");
  group?.append(alert);
  const label = control?.name === member && group?.querySelector("label, legend").textContent;
  alert.replaceChildren(
    label ? message.replace(`${member}:`, `${label}:`) : message,
    " ",
    createDocLink(docUrl),
    correlationId ? h("span", { class: "correlation" }, `Correlation id: ${correlationId}`) : "",
  );
  control?.focus();
  if (control) alert.scrollIntoView({ block: "nearest" });
}

/**
 * Finds the named field in the alert's form, and marks it as invalid. Without such a field, returns the submit button.
 */
function findRefusedControl(alert, member = "") {
  const form = alert.closest("form");
  const fields = [...(form?.querySelectorAll(`[name="${CSS.escape(member)}"]`) ?? [])];
  const field = fields.find((element) => element.checkVisibility());
  if (!field) return form?.querySelector('[type="submit"]');
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", alert.id);
  return field;
}

export function clearError(alertId) {
  const alert = getElement(alertId);
  alert.replaceChildren();
  for (const field of alert.closest("form")?.querySelectorAll("[aria-invalid]") ?? []) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
}

/** Tells a screen reader what a click has changed. */
export function announce(text) {
  getElement("announcement").textContent = text;
}
