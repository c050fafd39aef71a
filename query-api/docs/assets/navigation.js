import { matches } from "./entries.js";

const list = document.getElementById("navigation");
const form = document.getElementById("search");
const input = document.getElementById("query");
const status = document.getElementById("matches");
const contents = document.getElementById("contents");

/** Matches windows in which the navigation is next to the reference. */
const wideWindow = matchMedia("(min-width: 1001px)");

/** Links by entry. */
const links = new Map();

/** Adds the entries of an API to the navigation, under its title. */
export function addEntries(title, entries) {
  const section = createElement("section");
  section.append(createElement("h2", title));
  for (const group of new Set(entries.map((entry) => entry.group))) {
    const items = createElement("ul");
    for (const entry of entries.filter((candidate) => candidate.group === group)) items.append(createItem(entry));
    const block = createElement("div");
    block.append(createElement("h3", group), items);
    section.append(block);
  }
  list.append(section);
  filter();
}

/** Marks the link of the current operation. */
export function markCurrent(fragment) {
  for (const link of links.values()) {
    if (link.hash === fragment) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  if (!wideWindow.matches) contents.open = false;
}

function createItem(entry) {
  const { api, id, label, title } = entry;
  const link = createElement("a");
  link.href = `#${api}/${id}`;
  const badge = createElement("span", label);
  badge.className = `method ${label.toLowerCase()}`;
  link.append(badge, " ", createElement("span", title));
  links.set(entry, link);
  const item = createElement("li");
  item.append(link);
  return item;
}

/** Shows only the links that match the query, and the headings above them. */
function filter() {
  const query = input.value.trim();
  let count = 0;
  for (const [entry, link] of links) {
    const isMatch = matches(entry, query);
    link.parentElement.hidden = !isMatch;
    if (isMatch) count += 1;
  }
  for (const group of list.querySelectorAll("section, section > div")) {
    group.hidden = group.querySelector("li:not([hidden])") === null;
  }
  status.textContent = query === "" ? "" : `${count} ${count === 1 ? "match" : "matches"}`;
}

function createElement(name, text = "") {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}

function isTyping({ target }) {
  return target instanceof Element && target.closest("input, textarea, select") !== null;
}

input.addEventListener("input", filter);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelector("li:not([hidden]) a")?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !isTyping(event) && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    contents.open = true;
    input.focus();
  }
  if (event.key === "Escape" && event.target === input) {
    input.value = "";
    filter();
  }
});

const adaptToWindow = () => {
  contents.open = wideWindow.matches;
};
wideWindow.addEventListener("change", adaptToWindow);
adaptToWindow();
