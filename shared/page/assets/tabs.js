import { getElement } from "./dom.js";

/**
 * Initializes a list of tabs. Each tab has the id `tab-<name>`, and its panel has the id `panel-<name>`. The left and
 * right arrow keys select the previous or next tab. Home and End select the first or last tab.
 *
 * @param {string[]} tabNames
 * @param {(name: string) => void} onShow called with the name of the tab that is shown
 */
export function initTabs(tabNames, onShow) {
  const show = (name, takesFocus) => {
    for (const tabName of tabNames) {
      const tab = getElement(`tab-${tabName}`);
      tab.setAttribute("aria-selected", String(tabName === name));
      tab.tabIndex = tabName === name ? 0 : -1;
      getElement(`panel-${tabName}`).hidden = tabName !== name;
    }
    if (takesFocus) getElement(`tab-${name}`).focus();
    onShow(name);
  };
  tabNames.forEach((name, index) => {
    const tab = getElement(`tab-${name}`);
    tab.addEventListener("click", () => show(name, false));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabNames.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(tabNames[(to + tabNames.length) % tabNames.length], true);
    });
  });
  return {
    show: (name) => show(name, false),
    getShownTab: () => tabNames.find((name) => !getElement(`panel-${name}`).hidden),
  };
}
