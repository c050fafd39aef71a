import { byId } from "./dom.js";

const NAMES = ["timeline", "causes", "deliveries"];

/**
 * Tabs with keyboard support: the arrow keys move, Home and End go to the first and last tab.
 *
 * @param {(name: string) => void} onShow called when a tab is shown
 */
export function startTabs(onShow) {
  const show = (name, focus) => {
    for (const other of NAMES) {
      const tab = byId(`tab-${other}`);
      tab.setAttribute("aria-selected", String(other === name));
      tab.tabIndex = other === name ? 0 : -1;
      byId(`panel-${other}`).hidden = other !== name;
    }
    if (focus) byId(`tab-${name}`).focus();
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
    shown: () => NAMES.find((name) => !byId(`panel-${name}`).hidden),
  };
}
