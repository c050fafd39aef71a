import { fetchBlob } from "./api.js";
import { getSelectedClinicId, getTimeZone } from "./clinics.js";
import { createCopyButton } from "./copy.js";
import { getElement, h } from "./dom.js";
import { toInstant } from "./local-time.js";

/** Thumbprint of the key that signs exports. */
let keyThumbprint = "";

export function setKeyThumbprint(thumbprint) {
  keyThumbprint = thumbprint;
}

/** Initializes the form that exports the events of the selected clinic to a file. */
export function initExport(onError) {
  const form = getElement("export-form");
  const submit = form.querySelector('[type="submit"]');
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.getAttribute("aria-disabled") === "true") return;
    submit.setAttribute("aria-disabled", "true");
    clearExport();
    getElement("search-alert").textContent = "";
    getElement("export-status").textContent = "Exporting …";
    try {
      const clinic = getSelectedClinicId();
      const query = { clinic, from: readDay("export-from"), to: readDay("export-to") };
      const file = `audit-${clinic}.ndjson`;
      save(await fetchBlob("export", query), file);
      showResult(file, query);
    } catch (error) {
      clearExport();
      onError(error);
    } finally {
      submit.removeAttribute("aria-disabled");
    }
  });
}

/** Removes the result of the last export. */
export function clearExport() {
  getElement("export-status").textContent = "";
  getElement("verify").replaceChildren();
}

/** Returns the start of a day in the clinic's time zone; undefined for an empty field. */
function readDay(id) {
  const day = getElement(id).value;
  return day === "" ? undefined : toInstant(day, getTimeZone(getSelectedClinicId()) ?? "UTC");
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

/** Shows the command that verifies the file, and that the file has the requested clinic and range. */
function showResult(file, { clinic, from = "start", to }) {
  // A thumbprint can start with a hyphen, so an equals sign connects it with the option.
  const options = [`--key=${keyThumbprint}`, `--clinic ${clinic}`, `--from ${from}`];
  const parts = [file, ...options, ...(to === undefined ? [] : [`--to ${to}`])];
  getElement("export-status").textContent = `Saved ${file}.`;
  const words = parts.flatMap((part) => [" ", h("span", {}, part)]);
  const command = h("pre", { id: "verify-command" }, "clinic audit verify", ...words);
  getElement("verify").replaceChildren(
    h(
      "p",
      {},
      "Verify the file with this command, or with docs/audit-verifier/verify.py of the project and the same options. ",
      "In a clone of the project, write npm run audit -- instead of clinic audit.",
    ),
    command,
    createCopyButton("Copy", command),
    h(
      "p",
      { class: "hint" },
      "This service named the key. Compare its thumbprint with the one that the operator gave you.",
    ),
  );
}
