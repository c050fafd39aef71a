import { getElement } from "./dom.js";
import { readThumbprints, splitLines, verifyExport } from "./verify-export.js";

/** Initializes the form that verifies an export. Nothing is uploaded, so it works offline and without a session. */
export function initVerification() {
  const area = getElement("verify-card");
  const input = getElement("verify-file");
  const verify = async (file) => {
    if (!file) return;
    getElement("verify-status").textContent = `Verifying ${file.name} …`;
    getElement("verify-status").textContent = await describe(file).catch((error) => error.message);
  };
  input.addEventListener("change", () => verify(input.files[0]));
  getElement("verify-key").addEventListener("change", () => verify(input.files[0]));
  area.addEventListener("dragover", (event) => event.preventDefault());
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    input.files = event.dataTransfer.files;
    verify(input.files[0]);
  });
}

async function describe(file) {
  const thumbprints = await readThumbprints(getElement("verify-key").value);
  if (!thumbprints) return "Enter the thumbprint of the key, or the key set, that the operator gave you.";
  const { ok, manifest, line, problem } = await verifyExport(splitLines(readChunks(file)), thumbprints);
  if (!ok) return `${file.name} is not verified: line ${line}: ${problem}`;
  const { clinicId, stored, count, made } = manifest;
  const range = `stored ${stored.from ? `from ${stored.from}` : "from the beginning"} to ${stored.to}`;
  const origin = `created ${made.at} by ${made.by.type}:${made.by.id}`;
  return `${file.name} is complete and unaltered: clinic ${clinicId}, ${range}, ${count} events, ${origin}`;
}

/** Yields the chunks of a file. Some browsers cannot iterate over a stream directly. */
async function* readChunks(file) {
  const reader = file.stream().getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
}
