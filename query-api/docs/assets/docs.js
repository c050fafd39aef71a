import { createCopyButton } from "/partner/copy.js";
import { createText } from "/partner/dom.js";
import { listEntries, toErrorId, toGuideId } from "./entries.js";
import { addEntries, markCurrent, splitName } from "./navigation.js";

// Renders an OpenAPI document in each section. The page sends no requests, so it hides the buttons for credentials.
const hideAuthorization = () => ({
  wrapComponents: { authorizeBtn: () => () => null, authorizeOperationBtn: () => () => null },
});

/**
 * Arranges the parts of the reference. Swagger UI's own layout contains an element `main`, but a page may have only one,
 * and this page has two references.
 */
const defineLayout = ({ React: { createElement } }) => ({
  components: {
    ReferenceLayout({ getComponent, specSelectors }) {
      const [Row, Col, SvgAssets] = ["Row", "Col", "SvgAssets"].map((name) => getComponent(name));
      const createRow = (name, className) => {
        const part = createElement(getComponent(name, true));
        return createElement(Row, { className }, createElement(Col, { mobile: 12, desktop: 12 }, part));
      };
      const className = "swagger-ui";
      if (specSelectors.loadingStatus() !== "success") return createElement("div", { className });
      const servers = createElement(
        "div",
        { className: "scheme-container" },
        createElement(
          Col,
          { className: "schemes wrapper", mobile: 12 },
          createElement(getComponent("ServersContainer", true)),
        ),
      );
      return createElement(
        "div",
        { className },
        createElement(SvgAssets),
        createRow("InfoContainer", "information-container"),
        servers,
        createRow("operations"),
        createRow("Webhooks", "webhooks-container"),
        createRow("Models"),
      );
    },
  },
});

/**
 * Shows what the URL's fragment names: an API, as in `#partner`, a guide or an error, as in `#partner/guide-limits`, or
 * an operation, as in `#partner/exchangeToken`. Opens the operation. Moves the focus to the guide, error or operation.
 */
function showFragment() {
  const [sectionId = "", id = ""] = location.hash.slice(1).split("/");
  const section = document.getElementById(sectionId);
  if (!section) return;
  // This can close the contents. It comes first, because the page then moves and the contents lose the focus.
  markCurrent(location.hash);
  const part = section.querySelector(`[data-part="${CSS.escape(id)}"]`);
  const operation = part || id === "" ? null : findOperation(section, id);
  (part ?? operation ?? section).scrollIntoView();
  part?.focus({ preventScroll: true });
  const control = operation?.querySelector(".opblock-summary-control");
  if (control?.getAttribute("aria-expanded") === "false") control.click();
  control?.focus({ preventScroll: true });
}

/** Finds an operation. If the user has closed its group, opens the group first. */
function findOperation(section, operationId) {
  const selector = `.opblock[id$="-${CSS.escape(operationId)}"]`;
  if (!section.querySelector(selector)) {
    for (const group of section.querySelectorAll('.opblock-tag[data-is-open="false"]')) group.click();
  }
  return section.querySelector(selector);
}

/** Corrects markup of Swagger UI that assistive technologies misunderstand. React keeps these attributes. */
function correctMarkup(section) {
  for (const code of section.querySelectorAll("pre")) code.tabIndex = 0;
  for (const table of section.querySelectorAll(".responses-table:not([aria-label])")) {
    table.setAttribute("aria-label", `Responses of ${table.closest(".opblock").id.split("-").at(-1)}`);
  }
  // These headings do not follow a heading of the next higher level.
  for (const heading of section.querySelectorAll(".models h4")) heading.setAttribute("aria-level", "2");
  for (const heading of section.querySelectorAll(".webhooks h4")) heading.setAttribute("aria-level", "3");
  for (const heading of section.querySelectorAll(".webhooks h5")) heading.setAttribute("aria-level", "4");
  for (const button of section.querySelectorAll(".json-schema-2020-12-accordion:not([aria-label])")) {
    if (button.textContent === "") button.setAttribute("aria-label", "Fields");
  }
}

/** Names the sections and errors of the introduction, and adds buttons and the curl command to each open operation. */
function complete(section, entries) {
  for (const heading of section.querySelectorAll(".info .renderedMarkdown h2")) {
    namePart(heading, toGuideId(heading.textContent));
  }
  for (const code of section.querySelectorAll(".info .renderedMarkdown td:nth-child(2) > code:only-child")) {
    namePart(code.closest("tr"), toErrorId(code.textContent));
  }
  for (const name of section.querySelectorAll(".renderedMarkdown :not(pre) > code, .opblock-summary-path span")) {
    const parts = splitName(name.textContent);
    if (parts.length > 1 && !name.firstElementChild) name.replaceChildren(...parts);
  }
  for (const code of section.querySelectorAll(".info .renderedMarkdown pre")) {
    if (!code.parentElement.matches(".code-box")) addCopyButton(code, "Copy");
  }
  for (const body of section.querySelectorAll(".opblock.is-open .opblock-body")) {
    const header = body.querySelector(".responses-wrapper .opblock-section-header");
    if (header && !header.querySelector(".errors-toggle")) header.append(createErrorsToggle(body));
    if (body.querySelector(".code-box")) continue;
    const { id } = body.closest(".opblock");
    const entry = entries.find((candidate) => candidate.curl && id.endsWith(`-${candidate.id}`));
    if (entry) body.prepend(addCopyButton(createText(`curl command of ${entry.id}`, entry.curl), "Copy curl"));
  }
}

/** Names a part of the introduction, so that the URL's fragment can select it. */
function namePart(element, id) {
  element.dataset.part = id;
  element.tabIndex = -1;
}

/** Adds a button that copies a block of code. Returns the element that then contains both. */
function addCopyButton(code, label) {
  const box = document.createElement("div");
  box.className = "code-box";
  code.replaceWith(box);
  box.append(code, createCopyButton(label, code));
  return box;
}

/** Creates the button that shows or hides the bodies and headers of errors. */
function createErrorsToggle(body) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "errors-toggle";
  button.textContent = "Bodies of errors";
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    const isShown = body.closest(".opblock").toggleAttribute("data-shows-errors");
    button.setAttribute("aria-expanded", String(isShown));
  });
  return button;
}

async function showApi(section) {
  let entries = [];
  const improve = () => {
    correctMarkup(section);
    complete(section, entries);
  };
  new MutationObserver(improve).observe(section, { childList: true, subtree: true });
  globalThis.SwaggerUIBundle({
    domNode: section,
    url: section.dataset.document,
    plugins: [hideAuthorization, defineLayout],
    layout: "ReferenceLayout",
    supportedSubmitMethods: [],
    validatorUrl: null,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    showCommonExtensions: true,
    // The browser handles the URL's fragment before the operations are rendered.
    onComplete: showFragment,
  });
  const response = await fetch(section.dataset.document);
  entries = listEntries(section.id, await response.json());
  improve();
  return entries;
}

/** Selects the color scheme of Swagger UI, which does not follow the setting of the operating system itself. */
const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const adaptToScheme = () => document.documentElement.classList.toggle("dark-mode", darkScheme.matches);
darkScheme.addEventListener("change", adaptToScheme);
adaptToScheme();

const sections = [...document.querySelectorAll("[data-document]")];
const entryLists = await Promise.all(sections.map(showApi));
for (const [index, section] of sections.entries()) addEntries(section.getAttribute("aria-label"), entryLists[index]);
globalThis.addEventListener("hashchange", showFragment);
// The hash does not change if the user selects the current operation again.
document.getElementById("navigation").addEventListener("click", ({ target }) => {
  if (target.closest("a")?.hash === location.hash) showFragment();
});
