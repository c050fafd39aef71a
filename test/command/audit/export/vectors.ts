/**
 * Builds the files of the test vectors of the export format with the code that writes exports. `vectors.json` describes
 * them, and says how a verifier must judge them.
 */
import type { FaultCode } from "../../../../command/audit/export/verify-export.ts";
import { buildForgedVectors } from "./forged-vectors.ts";
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
  fault: FaultCode | null;
  /** Number of the line with the fault, counted from 1; null for a genuine export. */
  line: number | null;
}

/** Contents of files, by the name of the vector. */
export type Contents = Record<string, string | Uint8Array>;

/** Files with trusted keys, by name. */
export async function buildKeyFiles(): Promise<Record<string, string>> {
  const formatKeys = async (...keys: Parameters<typeof createTestSigner>) =>
    `${JSON.stringify((await createTestSigner(...keys)).jwks, null, 2)}\n`;
  return {
    "keys.json": await formatKeys(signingKey, retiredKey),
    "other-keys.json": await formatKeys(otherKey),
  };
}

/** Returns all files: genuine exports, altered files, and files with another manifest or signature. */
export async function buildVectorFiles(): Promise<Contents> {
  const historyLines = await exportLines(historyEvents);
  const contents = {
    ...(await buildGenuineVectors(historyLines)),
    ...buildAlteredEventVectors(historyLines),
    ...buildIncompleteVectors(historyLines),
    ...buildAlteredManifestVectors(historyLines),
    ...(await buildForgedVectors(historyLines)),
  };
  return Object.fromEntries(Object.entries(contents).map(([name, content]) => [`${name}.ndjson`, content]));
}

async function buildGenuineVectors(historyLines: string[]): Promise<Contents> {
  const range = { from: "2026-05-04T08:02:00.000Z", to: "2026-05-04T08:08:00.000Z" };
  const lines = {
    example: await exportLines(exampleEvents),
    history: historyLines,
    empty: await exportLines([]),
    range: await exportLines(mixedEvents, { stored: range }),
    "text-and-numbers": await exportLines(textAndNumberEvents),
    "unusual-events": await exportLines(unusualEvents),
    "newer-metadata": await exportLines(newerMetadataEvents),
    "retired-key": await exportLines(historyEvents, {}, [retiredKey]),
  };
  return Object.fromEntries(Object.entries(lines).map(([name, content]) => [name, content.join("")]));
}

/** Creates a function that returns the lines after a change of one line, which is counted from 1. */
const changeLine = (lines: string[]) => (number: number, pattern: string | RegExp, replacement: string) => {
  const line = lines[number - 1] ?? "";
  const changedLine = line.replace(pattern, replacement);
  if (changedLine === line) throw new Error(`line ${number} does not contain ${pattern}`);
  return lines.map((other) => (other === line ? changedLine : other)).join("");
};

function buildAlteredEventVectors(lines: string[]): Contents {
  const change = changeLine(lines);
  const [first = "", second = "", third = "", fourth = "", ...rest] = lines;
  const rebuild = (...parts: string[]) => [...parts, ...rest].join("");
  return {
    "event-changed": change(3, '"operator"', '"system"'),
    "event-member-added": change(3, '"event":{', '"event":{"__proto__":{"a":1},'),
    "link-changed": change(3, /"chain":"./, '"chain":"x'.replace("x", third[10] === "0" ? "1" : "0")),
    "event-removed": rebuild(first, second, fourth),
    "first-event-removed": rebuild(second, third, fourth),
    "events-exchanged": rebuild(first, second, fourth, third),
    "event-repeated": rebuild(first, second, third, third, fourth),
    "space-added": change(3, ":", ": "),
    "members-exchanged": change(3, /^\{("chain":"\w+"),(.*)\}\n$/, "{$2,$1}\n"),
    "member-repeated": change(3, "{", '{"chain":"0",'),
    "escape-added": change(5, "ö", "\\u00f6"),
    "lone-surrogate": change(3, '"ada"', '"\\ud83d"'),
    "number-form-changed": change(2, '"revision":1', '"revision":1.0'),
    "number-too-large": change(2, '"revision":1', '"revision":1e400'),
    "carriage-return": change(3, "\n", "\r\n"),
    "byte-order-mark": `\ufeff${lines.join("")}`,
    "blank-line": rebuild(first, second, "\n", third, fourth),
    "line-member-added": change(3, /\}\n$/, ',"note":1}\n'),
    "link-in-upper-case": change(3, /(?<="chain":")\w+/, third.slice(10, 74).toUpperCase()),
    "invalid-utf8": Buffer.from(lines.join("").replace("ö", "\u00ff"), "latin1"),
  };
}

function buildIncompleteVectors(lines: string[]): Contents {
  const text = lines.join("");
  const firstLines = lines.slice(0, 3).join("");
  return {
    "empty-file": "",
    "manifest-removed": lines.slice(0, -1).join(""),
    "cut-in-event": firstLines.slice(0, -20),
    "cut-after-event": firstLines.slice(0, -1),
    "cut-in-manifest": text.slice(0, -20),
    "line-feed-removed": text.slice(0, -1),
    "last-event-removed": [...lines.slice(0, 4), lines[5]].join(""),
    "all-events-removed": lines[5] ?? "",
    "event-after-manifest": text + lines[4],
    "blank-line-at-end": `${text}\n`,
  };
}

function buildAlteredManifestVectors(lines: string[]): Contents {
  const change = changeLine(lines);
  const { manifest, signature } = JSON.parse(lines[5] ?? "");
  const [mark] = manifest.marks.links;
  const [header, payload, lastPart] = signature.split(".");
  const changedMark = change(6, mark, "0".repeat(16));
  const changedPayload = Buffer.from(payload, "base64url").toString().replace(mark, "0".repeat(16));
  const encodedPayload = Buffer.from(changedPayload).toString("base64url");
  const changeFirst = (text: string) => text.replace(/^./, (letter) => (letter === "A" ? "B" : "A"));
  return {
    "count-changed": change(6, '"count":5', '"count":4'),
    "clinic-changed": change(6, "11111111-1111", "11111111-2222"),
    "mark-changed": changedMark,
    "signed-mark-changed": changedMark.replace(payload, encodedPayload),
    "signature-changed": change(6, lastPart, changeFirst(lastPart)),
    "signature-unused-bits": change(6, lastPart, setUnusedBit(lastPart)),
    "signature-padded": change(6, lastPart, `${lastPart}==`),
    "signature-space": change(6, lastPart, ` ${lastPart}`),
    "signature-removed": change(6, signature, ""),
    "signature-cut": change(6, signature, `${header}.${payload}`),
    "manifest-member-removed": change(6, /"manifest":.*,(?="signature")/, ""),
    "signature-member-removed": change(6, /,"signature":"[^"]*"/, ""),
    "manifest-member-added": change(6, /\}\n$/, ',"version":1}\n'),
  };
}

/** Sets a bit that decoders ignore, because 64 bytes do not fill 86 characters. */
function setUnusedBit(signature: string): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return signature.slice(0, -1) + alphabet[alphabet.indexOf(signature.slice(-1)) + 1];
}
