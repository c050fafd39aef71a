import { fetchBlob } from "./api.js";
import { getSelectedClinicId, getTimeZone } from "./clinics.js";
import { getElement, h } from "./dom.js";
import { toInstant } from "./local-time.js";

/** Initializes the form that exports the events of the selected clinic to a file. */
export function initExport(onError) {
  const form = getElement("export-form");
  const submit = form.querySelector('[type="submit"]');
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.getAttribute("aria-disabled") === "true") return;
    submit.setAttribute("aria-disabled", "true");
    clearExport();
    getElement("export-status").textContent = "Exporting …";
    try {
      const clinic = getSelectedClinicId();
      const file = `audit-${clinic}.ndjson`;
      save(await fetchBlob("export", { clinic, from: readDay("export-from"), to: readDay("export-to") }), file);
      showResult(file);
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
  getElement("export-status").replaceChildren();
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

function showResult(file) {
  const command = h("code", {}, `clinic audit verify ${file} --key <thumbprint>`);
  const keys = h("a", { href: "/audit/v1/jwks.json", target: "_blank", rel: "noopener" }, "public keys");
  getElement("export-status").replaceChildren(
    ...[
      `Saved ${file}. To verify it, run `,
      command,
      ". The operator gives you the thumbprint of one of the ",
      keys,
      ".",
    ],
  );
}
