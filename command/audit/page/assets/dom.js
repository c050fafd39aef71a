/**
 * Makes an element. Texts become text nodes and nothing else, whatever they hold.
 *
 * @param {string} tag
 * @param {Record<string, unknown>} attributes `onclick` and its like are listeners; undefined and false are left out
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

/** The element with an id of this page. */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no ${id}`);
  return element;
}
