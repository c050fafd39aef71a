import { byId } from "./dom.js";

const NAMES = ["timeline", "causes", "deliveries"];

/**
 * Initializes the tabs. The left and right arrow keys select the previous or next tab, Home and End the first or last.
 *
 * @param {(name: string) => void} onShow called with the name of the tab that is shown
 */
export function initTabs(onShow) {
  const show = (name, takesFocus) => {
    for (const tabName of NAMES) {
      const tab = byId(`tab-${tabName}`);
      tab.setAttribute("aria-selected", String(tabName === name));
      tab.tabIndex = tabName === name ? 0 : -1;
      byId(`panel-${tabName}`).hidden = tabName !== name;
    }
    if (takesFocus) byId(`tab-${name}`).focus();
    onShow(name);
  };
  NAMES.forEach((name, index) => {
    const tab = byId(`tab-${name}`);
    tab.addEventListener("click", () => show(name, false));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: NAMES.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(NAMES[(to + NAMES.length) % NAMES.length], true);
    });
  });
  return {
    show: (name) => show(name, false),
    getShownTab: () => NAMES.find((name) => !byId(`panel-${name}`).hidden),
  };
}
