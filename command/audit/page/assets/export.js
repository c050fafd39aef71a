import { onSubmit, showProgress } from "./actions.js";
import { fetchBlob } from "./api.js";
import { getSelectedClinicId, readInstant } from "./clinics.js";
import { createCopyButton } from "./copy.js";
import { createHint, getElement, h } from "./dom.js";
import { readThumbprints, splitLines, verifyExport } from "./verify-export.js";

/** Thumbprint of the key that signs exports. */
let keyThumbprint = "";

export function setKeyThumbprint(thumbprint) {
  keyThumbprint = thumbprint;
}

/** Initializes the form that exports the events of the selected clinic to a file. */
export function initExport() {
  const status = getElement("export-status");
  onSubmit("export-form", "search-alert", async () => {
    getElement("verify").replaceChildren();
    const clinic = getSelectedClinicId();
    const query = { clinic, from: readInstant("export-from"), to: readInstant("export-to") };
    const file = `audit-${clinic}.ndjson`;
    save(await showProgress(status, "Exporting …", () => fetchBlob("export", query)), file);
    status.textContent = `Saved ${file}.`;
    showResult(file, query);
  });
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

/** Shows the command line that verifies the exported file, including the requested clinic and time range. */
function showResult(file, { clinic, from = "start", to }) {
  // A thumbprint can start with a hyphen, so an equals sign connects it with the option.
  const options = [`--key=${keyThumbprint}`, `--clinic ${clinic}`, `--from ${from}`];
  const parts = [file, ...options, ...(to === undefined ? [] : [`--to ${to}`])];
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
    createHint("This service named the key. Compare its thumbprint with the one that the operator gave you."),
  );
}

/** Initializes the form that verifies an export. Nothing is uploaded, so it works offline and without a session. */
export function initVerification() {
  const area = getElement("verify-card");
  const input = getElement("verify-file");
  const status = getElement("verify-status");
  const verify = async () => {
    const [file] = input.files;
    status.textContent = file ? `Verifying ${file.name} …` : "";
    const text = file && (await describeVerdict(file).catch((error) => error.message));
    if (text && file === input.files[0]) status.textContent = text;
  };
  area.addEventListener("change", verify);
  area.addEventListener("dragover", (event) => event.preventDefault());
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    area.open = true;
    input.files = event.dataTransfer.files;
    verify();
  });
}

async function describeVerdict(file) {
  const thumbprints = await readThumbprints(getElement("verify-key").value);
  if (!thumbprints) return "Enter the thumbprint of the key, or the key set, that the operator gave you.";
  const { ok, manifest, line, problem } = await verifyExport(splitLines(readChunks(file)), thumbprints);
  if (!ok) return `${file.name} is not verified: line ${line}: ${problem}`;
  const { clinicId, stored, count, made } = manifest;
  const range = `stored ${stored.from ? `from ${stored.from}` : "from the beginning"} to ${stored.to}`;
  const origin = `created ${made.at} by ${made.by.type}:${made.by.id}`;
  return `${file.name} is complete and unaltered: clinic ${clinicId}, ${range}, ${count} events, ${origin}`;
}

/** Yields the chunks of a file. Uses a reader, because some browsers cannot iterate over a stream. */
async function* readChunks(file) {
  const reader = file.stream().getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
}
