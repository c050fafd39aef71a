import { h } from "./dom.js";

/** Creates an element with an id in a monospaced font. */
export function createId(id) {
  return h("span", { class: "id" }, id);
}

/** Creates a list of short texts, such as scopes or event types. */
export function createTags(texts) {
  if (texts.length === 0) return "none";
  return h("span", { class: "tags" }, ...texts.map((text) => h("span", { class: "tag" }, text)));
}

/** Creates a tag with a status. The style depends on the status. */
export function createStatusTag(status) {
  return h("span", { class: `tag status-${status}` }, status);
}

/** Creates a button. */
export function createButton(text, attributes = {}) {
  return h("button", { type: "button", ...attributes }, text);
}

/** Formats a number of deliveries: `1 delivery` */
export function formatDeliveryCount(count) {
  return `${count} ${count === 1 ? "delivery" : "deliveries"}`;
}
