import { findEntries } from "./entries.js";

const navigation = document.getElementById("navigation");
const results = document.getElementById("results");
const tree = document.getElementById("tree");
const form = document.getElementById("search");
const input = document.getElementById("query");
const status = document.getElementById("matches");
const contents = document.getElementById("contents");

/** Matches windows in which the navigation is next to the reference. */
const wideWindow = matchMedia("(min-width: 1001px)");

const allEntries = [];

/** Adds the entries of an API to the navigation, under its title. Errors appear only among the results of the search. */
export function addEntries(title, entries) {
  allEntries.push(...entries);
  const section = createElement("section");
  section.append(createElement("h2", title));
  const listedEntries = entries.filter(({ label }) => label !== "ERROR");
  for (const group of new Set(listedEntries.map((entry) => entry.group))) {
    const items = createElement("ul");
    items.append(...listedEntries.filter((entry) => entry.group === group).map(createItem));
    section.append(createElement("h3", group), items);
  }
  tree.append(section);
  showMatches();
}

/** Marks the links to the current part of the page. In a narrow window, closes the contents. */
export function markCurrent(fragment) {
  for (const link of navigation.querySelectorAll("a")) {
    if (link.hash === fragment) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  if (!wideWindow.matches) contents.open = false;
}

function createItem({ api, id, label, title, hint }) {
  const link = createElement("a");
  link.href = `#${api}/${id}`;
  const badge = createElement("span", label);
  badge.className = `method ${label.toLowerCase()}`;
  const name = createElement("span");
  name.append(...splitName(title), " ", createElement("small", hint));
  link.append(badge, " ", name);
  const item = createElement("li");
  item.append(link);
  return item;
}

/** Shows the matches of the query instead of the complete contents. */
function showMatches() {
  const query = input.value.trim();
  const matches = query === "" ? [] : findEntries(allEntries, query);
  results.replaceChildren(...matches.map(createItem));
  results.hidden = query === "";
  tree.hidden = query !== "";
  status.textContent = query === "" ? "" : `${matches.length} ${matches.length === 1 ? "match" : "matches"}`;
}

/** Splits a text at the places where a long name can break: after a dot, an underscore or a hyphen. */
export function splitName(text) {
  return text
    .split(/(?<=\w[._/-])(?=\w)/)
    .flatMap((part, index) => (index === 0 ? part : [createElement("wbr"), part]));
}

function createElement(name, text = "") {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}

function isTyping({ target }) {
  return target instanceof Element && target.closest("input, textarea, select") !== null;
}

/** Opens the contents first, because screen readers announce only a status that is visible. */
function updateSearch() {
  contents.open = wideWindow.matches || input.value.trim() !== "";
  showMatches();
}

input.addEventListener("input", updateSearch);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  results.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !isTyping(event) && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    input.focus();
  }
  if (event.key === "Escape" && event.target === input) {
    input.value = "";
    updateSearch();
  }
});

const adaptToWindow = () => {
  contents.open = wideWindow.matches;
};
wideWindow.addEventListener("change", adaptToWindow);
adaptToWindow();
