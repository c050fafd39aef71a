/**
 * Creates an element. Strings become text nodes and are never parsed as HTML.
 *
 * @param {Record<string, unknown>} attributes functions such as `onclick` are listeners; undefined and false are omitted
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

export function createButton(text, attributes = {}) {
  return h("button", { type: "button", ...attributes }, text);
}

/** Creates an element that shows an id in a monospaced font. */
export function createId(id, attributes = {}) {
  return h("span", { class: "id", ...attributes }, id);
}

export function createTag(text, className = "") {
  return h("span", { class: `tag ${className}`.trim() }, text);
}

/** Creates a tag with a status. The style depends on the status. */
export function createStatusTag(status) {
  return createTag(status, `status-${status}`);
}

/** Creates a list of short texts, such as scopes; the text `none` if there are no texts. */
export function createTags(texts) {
  return texts.length === 0 ? "none" : h("span", { class: "tags" }, ...texts.map((text) => createTag(text)));
}

/** Creates a paragraph that explains why there is nothing to show. */
export function createEmptyText(text) {
  return h("p", { class: "empty" }, text);
}

export function createHint(...children) {
  return h("p", { class: "hint" }, ...children);
}

/** Creates a list of facts, which are pairs of a name and a value. */
export function createFactList(facts) {
  return h("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/**
 * Creates a row of a table.
 *
 * @param {Node | string | (Node | string)[]} title content of the first cell, which is the header of the row
 * @param {(Node | string | (Node | string)[])[]} cells content of the other cells
 */
export function createRow(title, cells, attributes = {}) {
  const createCell = (content) => h("td", {}, ...[content].flat());
  return h("tr", attributes, h("th", { scope: "row" }, ...[title].flat()), ...cells.map(createCell));
}

/** Creates a table in a region that scrolls on narrow screens. */
export function createTable(label, titles, rows, attributes = {}) {
  const head = h("tr", {}, ...titles.map((title) => h("th", { scope: "col" }, title)));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", attributes, h("thead", {}, head), h("tbody", {}, ...rows)),
  );
}

/** Creates a labeled block of text. The arrow keys scroll it. */
export function createText(label, text) {
  return h("pre", { tabindex: "0", role: "region", "aria-label": label }, text);
}

/** Creates a link to an error code in the API reference, or an empty text if `docUrl` is absent or invalid. */
export function createDocLink(docUrl) {
  if (!docUrl?.startsWith("/docs#")) return "";
  const hint = h("span", { class: "unseen" }, " (opens a new tab)");
  return h("a", { href: docUrl, target: "_blank", rel: "noopener" }, "About this error", hint);
}

/** Marks the button with the given `data-id` as the current one of its list. */
export function markCurrent(buttons, id) {
  for (const button of buttons) button.ariaCurrent = button.dataset.id === id ? "true" : null;
}

/** Returns true if the details are below the list instead of next to it. */
export function isNarrow() {
  return matchMedia("(max-width: 64rem)").matches;
}

/** Returns the element with the given id. Throws an error if the page has no such element. */
export function getElement(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element #${id}`);
  return element;
}
