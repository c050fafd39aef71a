import { createApiReference } from "./standalone.esm.js";

const PARTNER_URL = "/partner/v1/openapi.json";
const reference = document.getElementById("reference");

/** Error code in the URL's fragment, as in the field `docUrl` of an error. */
const [, errorCode] = /^#error-(\w+)$/.exec(location.hash) ?? [];
// Scalar would keep an unknown fragment as a prefix of its own.
if (errorCode) history.replaceState(null, "", location.pathname);

/** Returns true if the partner document does not list the error, so that the portal document explains it. */
async function isPortalError(code) {
  const { info } = await (await fetch(PARTNER_URL)).json();
  return !info.description.includes(`| \`${code}\` |`);
}

/** Moves the focus once to the error's row in the table of error codes, if the row is rendered. */
function showError() {
  const codes = reference.querySelectorAll("td:nth-child(2) > code");
  const row = [...codes].find(({ textContent }) => textContent === errorCode)?.closest("tr");
  if (!row || row.hasAttribute("tabindex")) return;
  row.tabIndex = -1;
  row.scrollIntoView({ block: "center" });
  row.focus({ preventScroll: true });
}

/** Corrections that make Scalar's elements accessible, by CSS selector. An attribute with the value null is removed. */
const CORRECTIONS = {
  "pre > code:not([tabindex]), .cm-scroller[tabindex='-1']": { tabindex: "0" },
  "[role=combobox]:not([aria-expanded])": { "aria-expanded": "false" },
  "[role=listbox] [role=alert]": { role: "option", "aria-disabled": "true" },
  "button[role=none]": { role: null },
  "[role=dialog] button[aria-label='Copy code'][aria-controls]": { "aria-controls": null },
  "button.text-c-3[aria-expanded]:not([aria-label]):empty, button.text-c-3[aria-expanded]:not([aria-label]):has(> svg:only-child)":
    { "aria-label": "Scopes" },
  ".cm-content:not([aria-label])": { "aria-label": "Body" },
  "[role=dialog] section[aria-label^=Notifications]": { "aria-label": "Results of requests" },
};

function improve() {
  for (const [selector, attributes] of Object.entries(CORRECTIONS)) {
    for (const element of document.querySelectorAll(selector)) {
      for (const [name, value] of Object.entries(attributes)) {
        if (value === null) element.removeAttribute(name);
        else element.setAttribute(name, value);
      }
    }
  }
  // While the dialog is open, the page has another main element.
  const hasDialog = document.querySelector(".scalar-client--open") !== null;
  document.querySelector(".references-rendered")?.toggleAttribute("inert", hasDialog);
  if (errorCode) showError();
}

let isScheduled = false;
const scheduleImprovement = () => {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    improve();
  });
};
new MutationObserver(scheduleImprovement).observe(document.body, {
  childList: true,
  subtree: true,
  attributeFilter: ["class"],
});
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#error-")) location.reload();
});

const showsPortal = errorCode !== undefined && (await isPortalError(errorCode));
const commonOptions = {
  // At first, operations show the curl command that the documents contain.
  featuredClients: ["shell/curl", "js/fetch", "python/requests", "php/guzzle", "go/native"],
  // Nothing is sent to Scalar.
  agent: { disabled: true },
  mcp: { disabled: true },
  telemetry: false,
  withDefaultFonts: false,
  hideClientButton: true,
  showDeveloperTools: "never",
};
createApiReference("#reference", [
  {
    ...commonOptions,
    ...{ title: "Partner API", slug: "partner", url: PARTNER_URL, default: !showsPortal },
    authentication: { preferredSecurityScheme: "sandboxToken" },
  },
  { ...commonOptions, title: "Portal read API", slug: "portal", url: "/api/v1/openapi.json", default: showsPortal },
]);
