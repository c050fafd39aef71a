import { expect } from "chai";
import type { Page } from "playwright-core";

/** Selects the elements that a person can operate, and regions that the arrow keys scroll. */
const OPERABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']";

/** Builds an expression that returns the elements that the Tab key must reach, in document order. */
const buildListing = (
  duplicates: string,
) => `[...document.querySelectorAll(${JSON.stringify(OPERABLE)})].filter((element) =>
  element.checkVisibility({ visibilityProperty: true }) && !element.disabled &&
  // The arrow keys move between the tabs of a list, and between radio buttons.
  !(element.role === "tab" && element.tabIndex === -1) && !(element.type === "radio" && !element.checked) &&
  !element.matches(${JSON.stringify(duplicates)}) && !element.closest("[inert]") && (!document.querySelector("dialog[open]") || element.closest("dialog[open]")))`;

/** Expression of a function that describes an element in error messages. */
const DESCRIBE =
  "((element) => element.tagName.toLowerCase() + ' ' + (element.id || element.ariaLabel || element.textContent.trim().slice(0, 60)))";

interface FocusedElement {
  name: string;
  /**
   * Index among the operable elements; -1 for other elements that browsers make focusable, such as scrolling regions.
   */
  index: number;
  hasIndicator: boolean;
  isInView: boolean;
  /** Edges in the window (left, top, right, bottom), and the topmost element there. */
  where: string;
}

/** Expression that describes the focused element; null if the focus is on the document. */
const READ_FOCUS = `(() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  // A link can wrap, and has then one rectangle for each line.
  const [{ left, top, right, bottom }] = element.getClientRects();
  const hit = document.elementFromPoint(
    (Math.max(left, 0) + Math.min(right, innerWidth)) / 2,
    Math.max(top, 0) + Math.min(bottom - top, 20) / 2,
  );
  return {
    name: ${DESCRIBE}(element),
    index: window.operableElements.indexOf(element),
    hasIndicator: outlineStyle !== "none" && parseFloat(outlineWidth) > 0,
    where: [left, top, right, bottom].map(Math.round).join(" ") + " " + (hit && hit.outerHTML.slice(0, 80)),
    isInView: hit !== null && (element.contains(hit) || hit.contains(element)),
  };
})()`;

/**
 * Moves through a page or its open dialog with the Tab key. Checks that the key reaches every operable element once, in
 * document order. Each focused element must be in view and have a visible indicator.
 *
 * @param duplicates selector of elements that need not be reachable, because another element has the same function
 */
export async function requireKeyboardAccess(page: Page, duplicates = "#none"): Promise<void> {
  await page.evaluate(`window.operableElements = ${buildListing(duplicates)}; window.operableElements[0].focus();`);
  // The browser shows the focus only after the use of the keyboard.
  await page.keyboard.press("Tab");
  await page.keyboard.press("Shift+Tab");
  const names = await page.evaluate<string[]>(`window.operableElements.map(${DESCRIBE})`);
  const indexes: number[] = [];
  const faults: string[] = [];
  // Elements that the browser makes focusable for another reason are visited as well.
  for (let presses = 0; presses < names.length + 100; presses += 1) {
    const focused = await page.evaluate<FocusedElement | null>(READ_FOCUS);
    const isSamePart = focused !== null && focused.index !== -1 && focused.index === indexes.at(-1);
    if (focused === null || (indexes.includes(focused.index) && !isSamePart)) break;
    // The browser itself marks the other parts of a date.
    if (!focused.hasIndicator && !isSamePart) faults.push(`${focused.name}: no visible focus`);
    if (!focused.isInView) faults.push(`${focused.name}: covered or outside the window (${focused.where})`);
    // The key also moves between the parts of a date.
    if (focused.index !== -1 && !isSamePart) indexes.push(focused.index);
    await page.keyboard.press("Tab");
  }
  expect(faults).to.deep.equal([]);
  expect(
    names.filter((_, index) => !indexes.includes(index)),
    "not reached",
  ).to.deep.equal([]);
  expect(indexes, "order").to.deep.equal([...names.keys()]);
}
