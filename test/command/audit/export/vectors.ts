/**
 * Builds the genuine test vectors of the export format with the code that writes exports. `vectors.json` describes all
 * vectors, and says how a verifier must judge them.
 */
import fs from "node:fs";
import { fileURLToPath } from "node:url";
import { generateExportLines } from "../../../../command/audit/export/export-clinic.ts";
import type { Manifest } from "../../../../command/audit/export/manifest.ts";
import type { AuditEvent } from "../../../../command/audit/log/audit-event.ts";
import {
  CLINIC_ID,
  exampleEvents,
  historyEvents,
  mixedEvents,
  newerMetadataEvents,
  textAndNumberEvents,
  unusualEvents,
} from "./vector-events.ts";
import { createTestSigner, otherKey, retiredKey, signingKey } from "./vector-keys.ts";

/** An entry of `vectors.json`: a file and the result of its verification. */
export interface Vector {
  /** Name of the file. */
  file: string;
  /** Name of the file with the trusted keys. */
  keys: string;
  /** Names of files with tree heads that the verifier holds. */
  heads?: string[];
  description: string;
  /** Code of the expected fault; null for a genuine file. */
  fault: string | null;
  /** Number of the line with the fault in an export, counted from 1; null for a genuine export. */
  line?: number | null;
}

export interface Vectors {
  /** Path that ends with a slash. */
  folder: string;
  vectors: Vector[];
}

export function readVectors(folderUrl: URL): Vectors {
  const folder = fileURLToPath(folderUrl);
  return { folder, vectors: JSON.parse(fs.readFileSync(`${folder}vectors.json`, "utf8")) };
}

export const exportVectors = readVectors(new URL("./vectors/", import.meta.url));

/** Files with trusted keys, by name. */
export async function buildKeyFiles(): Promise<Record<string, string>> {
  const formatKeys = async (...keys: Parameters<typeof createTestSigner>) =>
    `${JSON.stringify((await createTestSigner(...keys)).jwks, null, 2)}\n`;
  return {
    "keys.json": await formatKeys(signingKey, retiredKey),
    "other-keys.json": await formatKeys(otherKey),
  };
}

/** Returns the lines of an export of the events with a fixed manifest. The first key signs; by default, the first key of `keys.json`. */
export async function exportLines(
  events: AuditEvent[],
  manifest: Partial<Pick<Manifest, "stored">> = {},
  signingKeys = [signingKey, retiredKey],
): Promise<string[]> {
  const readEvents = async function* () {
    yield* events;
  };
  const lines = generateExportLines(readEvents(), {
    clinicId: CLINIC_ID,
    stored: { from: null, to: "2026-06-01T00:00:00.000Z" },
    made: {
      at: "2026-06-02T07:30:00.000Z",
      by: { type: "operator", id: "ada" },
      accessId: "66666666-6666-4666-8666-666666666666",
      logEnd: "9000000",
    },
    signer: await createTestSigner(...signingKeys),
    ...manifest,
  });
  const collectedLines: string[] = [];
  for await (const line of lines) collectedLines.push(line);
  return collectedLines;
}

/** Returns the files of the genuine exports. The altered files are data only. */
export async function buildVectorFiles(): Promise<Record<string, string>> {
  const range = { from: "2026-05-04T08:02:00.000Z", to: "2026-05-04T08:08:00.000Z" };
  const lines = {
    example: await exportLines(exampleEvents),
    history: await exportLines(historyEvents),
    empty: await exportLines([]),
    range: await exportLines(mixedEvents, { stored: range }),
    "text-and-numbers": await exportLines(textAndNumberEvents),
    "unusual-events": await exportLines(unusualEvents),
    "newer-metadata": await exportLines(newerMetadataEvents),
    "retired-key": await exportLines(historyEvents, {}, [retiredKey]),
  };
  return Object.fromEntries(Object.entries(lines).map(([name, content]) => [`${name}.ndjson`, content.join("")]));
}
