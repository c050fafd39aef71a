import { createButton, getElement } from "./dom.js";

/**
 * Fills a list of tabs. The tab of the panel `panel-<name>` gets the id `tab-<name>`. The left and right arrow keys select
 * the previous or next tab. Home and End select the first or last tab.
 *
 * @param {Record<string, string>} titles titles of the tabs by name
 * @param {(name: string) => void} onShow called with the name of the tab that is shown
 */
export function initTabs(listId, titles, onShow) {
  const names = Object.keys(titles);
  const show = (name, takesFocus) => {
    for (const tabName of names) {
      const tab = getElement(`tab-${tabName}`);
      tab.ariaSelected = String(tabName === name);
      tab.tabIndex = tabName === name ? 0 : -1;
      getElement(`panel-${tabName}`).hidden = tabName !== name;
    }
    if (takesFocus) getElement(`tab-${name}`).focus();
    onShow(name);
  };
  const createTab = (name, index) => {
    const panel = getElement(`panel-${name}`);
    panel.role = "tabpanel";
    panel.setAttribute("aria-labelledby", `tab-${name}`);
    panel.hidden = index > 0;
    const onkeydown = (event) => {
      const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: names.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(names[(to + names.length) % names.length], true);
    };
    const attributes = { role: "tab", id: `tab-${name}`, "aria-controls": panel.id, onkeydown };
    return createButton(titles[name], { ...attributes, onclick: () => show(name, false) });
  };
  getElement(listId).replaceChildren(...names.map(createTab));
  return {
    show: (name) => show(name, false),
    getShownTab: () => names.find((name) => !getElement(`panel-${name}`).hidden),
  };
}
