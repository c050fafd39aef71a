/**
 * Builds the genuine test vectors of the export format with the code that writes exports. `vectors.json` describes all
 * vectors, and says how a verifier must judge them.
 */
import {
  exampleEvents,
  historyEvents,
  mixedEvents,
  newerMetadataEvents,
  textAndNumberEvents,
  unusualEvents,
} from "./vector-events.ts";
import { exportLines } from "./vector-export.ts";
import { createTestSigner, otherKey, retiredKey, signingKey } from "./vector-keys.ts";

/** An entry of `vectors.json`: a file and the result of its verification. */
export interface Vector {
  /** Name of the file. */
  file: string;
  /** Name of the file with the trusted keys. */
  keys: string;
  description: string;
  /** Code of the expected fault; null for a genuine export. */
  fault: string | null;
  /** Number of the line with the fault, counted from 1; null for a genuine export. */
  line: number | null;
}

/** Files with trusted keys, by name. */
export async function buildKeyFiles(): Promise<Record<string, string>> {
  const formatKeys = async (...keys: Parameters<typeof createTestSigner>) =>
    `${JSON.stringify((await createTestSigner(...keys)).jwks, null, 2)}\n`;
  return {
    "keys.json": await formatKeys(signingKey, retiredKey),
    "other-keys.json": await formatKeys(otherKey),
  };
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
