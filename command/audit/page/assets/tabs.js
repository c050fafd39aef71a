import { getElement } from "./dom.js";

const TAB_NAMES = ["timeline", "causes", "deliveries"];

/**
 * Initializes the tabs. The left and right arrow keys select the previous or next tab. Home and End select the first or
 * last tab.
 *
 * @param {(name: string) => void} onShow called with the name of the tab that is shown
 */
export function initTabs(onShow) {
  const show = (name, takesFocus) => {
    for (const tabName of TAB_NAMES) {
      const tab = getElement(`tab-${tabName}`);
      tab.setAttribute("aria-selected", String(tabName === name));
      tab.tabIndex = tabName === name ? 0 : -1;
      getElement(`panel-${tabName}`).hidden = tabName !== name;
    }
    if (takesFocus) getElement(`tab-${name}`).focus();
    onShow(name);
  };
  TAB_NAMES.forEach((name, index) => {
    const tab = getElement(`tab-${name}`);
    tab.addEventListener("click", () => show(name, false));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: TAB_NAMES.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(TAB_NAMES[(to + TAB_NAMES.length) % TAB_NAMES.length], true);
    });
  });
  return {
    show: (name) => show(name, false),
    getShownTab: () => TAB_NAMES.find((name) => !getElement(`panel-${name}`).hidden),
  };
}
