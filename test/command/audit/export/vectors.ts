/** Builds the test vectors of the export format with the code that writes exports. */
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

/** A file and the result of its verification. `vectors.json` lists all vectors in this form, without `content`. */
export interface Vector {
  /** Name of the file. */
  file: string;
  content: string | Uint8Array;
  /** Name of the file with the trusted keys. */
  keys: string;
  description: string;
  /** Code of the expected fault; null for a genuine export. */
  fault: FaultCode | null;
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

/** Returns all vectors: genuine exports, altered files, and files with another manifest or signature. */
export async function buildVectors(): Promise<Vector[]> {
  const historyLines = await exportLines(historyEvents);
  return [
    ...(await buildGenuineVectors(historyLines)),
    ...buildAlteredEventVectors(historyLines),
    ...buildIncompleteVectors(historyLines),
    ...buildAlteredManifestVectors(historyLines),
    ...(await buildForgedVectors(historyLines)),
  ];
}

async function buildGenuineVectors(historyLines: string[]): Promise<Vector[]> {
  const range = { from: "2026-05-04T08:02:00.000Z", to: "2026-05-04T08:08:00.000Z" };
  const genuine = { keys: "keys.json", fault: null, line: null };
  const toVector = (file: string, description: string, lines: string[]): Vector => ({
    file,
    description,
    ...genuine,
    content: lines.join(""),
  });
  return [
    toVector("example.ndjson", "the example in docs/audit-format.md", await exportLines(exampleEvents)),
    toVector("history.ndjson", "five events; the base of the altered files", historyLines),
    toVector("empty.ndjson", "no events", await exportLines([])),
    toVector(
      "range.ndjson",
      "a range in which three of eight events belong to the export",
      await exportLines(mixedEvents, { stored: range }),
    ),
    toVector("text-and-numbers.ndjson", "text, names and numbers", await exportLines(textAndNumberEvents)),
    toVector(
      "unusual-events.ndjson",
      "bytes, data that is no object, missing metadata, withheld secrets",
      await exportLines(unusualEvents),
    ),
    toVector("newer-metadata.ndjson", "metadata of another release or program", await exportLines(newerMetadataEvents)),
    toVector(
      "retired-key.ndjson",
      "signed with the second key of the key set",
      await exportLines(historyEvents, {}, [retiredKey]),
    ),
  ];
}

/** Creates a function that returns the lines after a change of one line, which is counted from 1. */
const changeLine = (lines: string[]) => (number: number, pattern: string | RegExp, replacement: string) => {
  const line = lines[number - 1] ?? "";
  const changedLine = line.replace(pattern, replacement);
  if (changedLine === line) throw new Error(`line ${number} does not contain ${pattern}`);
  return lines.map((other) => (other === line ? changedLine : other)).join("");
};

/** Creates vectors that are verified with `keys.json`. */
const toVectors = (
  rows: [file: string, description: string, fault: Vector["fault"], line: number | null, content: Vector["content"]][],
) =>
  rows.map(
    ([file, description, fault, line, content]): Vector => ({
      file: `${file}.ndjson`,
      description,
      keys: "keys.json",
      fault,
      line,
      content,
    }),
  );

function buildAlteredEventVectors(lines: string[]): Vector[] {
  const change = changeLine(lines);
  const [first = "", second = "", third = "", fourth = "", ...rest] = lines;
  const rebuild = (...parts: string[]) => [...parts, ...rest].join("");
  return toVectors([
    ["event-changed", "an actor was changed", "chain_mismatch", 3, change(3, '"operator"', '"system"')],
    [
      "event-member-added",
      "a member `__proto__` was added to an event",
      "chain_mismatch",
      3,
      change(3, '"event":{', '"event":{"__proto__":{"a":1},'),
    ],
    [
      "link-changed",
      "a link was changed",
      "chain_mismatch",
      3,
      change(3, /"chain":"./, '"chain":"x'.replace("x", third[10] === "0" ? "1" : "0")),
    ],
    ["event-removed", "the third event was removed", "chain_mismatch", 3, rebuild(first, second, fourth)],
    ["first-event-removed", "the first event was removed", "chain_mismatch", 1, rebuild(second, third, fourth)],
    [
      "events-exchanged",
      "the third and the fourth event were exchanged",
      "chain_mismatch",
      3,
      rebuild(first, second, fourth, third),
    ],
    [
      "event-repeated",
      "the third event was repeated",
      "chain_mismatch",
      4,
      rebuild(first, second, third, third, fourth),
    ],
    ["space-added", "a space was added", "not_canonical", 3, change(3, ":", ": ")],
    [
      "members-exchanged",
      "`event` precedes `chain`",
      "not_canonical",
      3,
      change(3, /^\{("chain":"\w+"),(.*)\}\n$/, "{$2,$1}\n"),
    ],
    ["member-repeated", "a line has two members `chain`", "not_canonical", 3, change(3, "{", '{"chain":"0",')],
    ["escape-added", "a character was escaped", "not_canonical", 5, change(5, "ö", "\\u00f6")],
    ["lone-surrogate", "a line contains half of a surrogate pair", "not_canonical", 3, change(3, '"ada"', '"\\ud83d"')],
    ["number-form-changed", "1 was written as 1.0", "not_canonical", 2, change(2, '"revision":1', '"revision":1.0')],
    [
      "number-too-large",
      "a number is larger than a double",
      "not_canonical",
      2,
      change(2, '"revision":1', '"revision":1e400'),
    ],
    ["carriage-return", "a line ends with CR LF", "not_canonical", 3, change(3, "\n", "\r\n")],
    ["byte-order-mark", "the file starts with a byte order mark", "not_an_event", 1, `\ufeff${lines.join("")}`],
    ["blank-line", "a blank line was inserted", "not_an_event", 3, rebuild(first, second, "\n", third, fourth)],
    [
      "line-member-added",
      "a line has a member besides `chain` and `event`",
      "not_an_event",
      3,
      change(3, /\}\n$/, ',"note":1}\n'),
    ],
    [
      "link-in-upper-case",
      "a link is in upper case",
      "not_an_event",
      3,
      third ? change(3, /(?<="chain":")\w+/, third.slice(10, 74).toUpperCase()) : "",
    ],
    [
      "invalid-utf8",
      "a line is not valid UTF-8",
      "invalid_utf8",
      5,
      Buffer.from(lines.join("").replace("ö", "\u00ff"), "latin1"),
    ],
  ]);
}

function buildIncompleteVectors(lines: string[]): Vector[] {
  const text = lines.join("");
  return toVectors([
    ["empty-file", "the file is empty", "manifest_missing", 1, ""],
    ["manifest-removed", "the manifest was removed", "manifest_missing", 6, lines.slice(0, -1).join("")],
    [
      "cut-in-event",
      "the file ends in the middle of the third line",
      "not_a_manifest",
      3,
      lines.slice(0, 3).join("").slice(0, -20),
    ],
    [
      "cut-after-event",
      "the file ends before the line feed of the third line",
      "not_canonical",
      3,
      lines.slice(0, 3).join("").slice(0, -1),
    ],
    ["cut-in-manifest", "the file ends in the middle of the last line", "not_a_manifest", 6, text.slice(0, -20)],
    ["line-feed-removed", "the last line has no line feed", "not_canonical", 6, text.slice(0, -1)],
    [
      "last-event-removed",
      "the last event was removed",
      "chain_not_signed",
      5,
      [...lines.slice(0, 4), lines[5]].join(""),
    ],
    ["all-events-removed", "all events were removed", "chain_not_signed", 1, lines[5] ?? ""],
    ["event-after-manifest", "an event follows the manifest", "manifest_not_last", 6, text + lines[4]],
    ["blank-line-at-end", "a blank line follows the manifest", "manifest_not_last", 6, `${text}\n`],
  ]);
}

function buildAlteredManifestVectors(lines: string[]): Vector[] {
  const change = changeLine(lines);
  const { manifest, signature } = JSON.parse(lines[5] ?? "");
  const [mark] = manifest.marks.links;
  const [header, payload, lastPart] = signature.split(".");
  const changedPayload = Buffer.from(payload, "base64url").toString().replace(mark, "0".repeat(16));
  const encodedPayload = Buffer.from(changedPayload).toString("base64url");
  return [
    ...toVectors([
      [
        "count-changed",
        "the number of events was changed in the readable manifest",
        "manifest_altered",
        6,
        change(6, '"count":5', '"count":4'),
      ],
      [
        "clinic-changed",
        "the clinic was changed in the readable manifest",
        "manifest_altered",
        6,
        change(6, "11111111-1111", "11111111-2222"),
      ],
      [
        "mark-changed",
        "a mark was changed in the readable manifest",
        "manifest_altered",
        6,
        change(6, mark, "0".repeat(16)),
      ],
      [
        "signed-mark-changed",
        "a mark was changed in the readable and in the signed manifest",
        "signature_invalid",
        6,
        change(6, mark, "0".repeat(16)).replace(payload, encodedPayload),
      ],
      [
        "signature-changed",
        "the signature was changed",
        "signature_invalid",
        6,
        change(
          6,
          lastPart,
          lastPart.replace(/^./, (letter: string) => (letter === "A" ? "B" : "A")),
        ),
      ],
      [
        "signature-unused-bits",
        "unused bits at the end of the signature are set",
        "signature_invalid",
        6,
        change(6, lastPart, setUnusedBit(lastPart)),
      ],
      [
        "signature-padded",
        "the signature ends with base64 padding",
        "signature_invalid",
        6,
        change(6, lastPart, `${lastPart}==`),
      ],
      [
        "signature-space",
        "the signature contains a space",
        "signature_invalid",
        6,
        change(6, lastPart, ` ${lastPart}`),
      ],
      ["signature-removed", "the signature is empty", "signature_invalid", 6, change(6, signature, "")],
      [
        "signature-cut",
        "the last part of the signature is missing",
        "signature_invalid",
        6,
        change(6, signature, `${header}.${payload}`),
      ],
      [
        "manifest-member-removed",
        "the member `manifest` is missing",
        "not_a_manifest",
        6,
        change(6, /"manifest":.*,(?="signature")/, ""),
      ],
      [
        "signature-member-removed",
        "the member `signature` is missing",
        "not_a_manifest",
        6,
        change(6, /,"signature":"[^"]*"/, ""),
      ],
      [
        "manifest-member-added",
        "the last line has a member besides `manifest` and `signature`",
        "not_a_manifest",
        6,
        change(6, /\}\n$/, ',"version":1}\n'),
      ],
    ]),
    {
      file: "history.ndjson",
      description: "a genuine export, verified with another key",
      content: lines.join(""),
      keys: "other-keys.json",
      fault: "key_untrusted",
      line: 6,
    },
  ];
}

/** Sets a bit that decoders ignore, because 64 bytes do not fill 86 characters. */
function setUnusedBit(signature: string): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return signature.slice(0, -1) + alphabet[alphabet.indexOf(signature.slice(-1)) + 1];
}
