/**
 * Builds the unaltered test vectors of the export format with the code that writes exports. `vectors.json` describes
 * all vectors, including altered files, and the result that a verifier must return.
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

/** An entry of `vectors.json`: a file and the expected result of its verification. */
export interface Vector {
  file: string;
  /** Name of the file with the trusted keys. */
  keys: string;
  /** Names of files with tree heads that the verifier has stored. */
  heads?: string[];
  description: string;
  /** Expected error code; null if the file is valid. */
  fault: string | null;
  /** Line of an export that causes the error, counted from 1; null if the file is valid. */
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

/** Returns the key files by file name. */
export async function buildKeyFiles(): Promise<Record<string, string>> {
  const formatKeys = async (...keys: Parameters<typeof createTestSigner>) =>
    `${JSON.stringify((await createTestSigner(...keys)).jwks, null, 2)}\n`;
  return {
    "keys.json": await formatKeys(signingKey, retiredKey),
    "other-keys.json": await formatKeys(otherKey),
  };
}

/**
 * Returns the lines of an export of the events, with fixed values in the manifest.
 *
 * @param signingKeys the first key signs
 */
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

/**
 * Returns the valid exports by file name. Altered files are not built: they are stored in the folder of the vectors.
 */
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
