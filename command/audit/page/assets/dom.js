/**
 * Creates an element. Strings become text nodes and are never parsed as HTML.
 *
 * @param {string} tag
 * @param {Record<string, unknown>} attributes `onclick` and similar are listeners; undefined and false are omitted
 * @param {...(Node | string)} children
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

/** Returns the element with an id. */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element #${id}`);
  return element;
}
