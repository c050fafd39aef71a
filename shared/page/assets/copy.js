import { h } from "./dom.js";

/**
 * Creates a button that copies the text of an element and reports the result. If the browser does not permit copying,
 * the button selects the text.
 *
 * @param {HTMLElement} source an element with text, or a text field
 */
export function createCopyButton(label, source) {
  const status = h("span", { class: "hint", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(source.value ?? source.textContent);
      status.textContent = "Copied.";
    } catch {
      // Without TLS, the browser has no clipboard. The user may also have refused access to it.
      if (source.value === undefined) getSelection().selectAllChildren(source);
      else source.select();
      status.textContent = "The browser does not permit copying. Press Ctrl+C.";
    }
  };
  return h("span", { class: "copy-button" }, h("button", { type: "button", onclick: copy }, label), status);
}
