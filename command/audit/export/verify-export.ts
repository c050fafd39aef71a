import { decodeUtf8 } from "../../../shared/runtime/decode-utf8.ts";
import { CHAIN_SEED, ChainSummary, computeNextLink, findFirstDifference } from "./chain.ts";
import { isCanonicalLine, parseJson, toCanonicalJson } from "./json.ts";
import { eventLineSchema, type Manifest, manifestLineSchema, manifestSchema } from "./manifest.ts";
import { type GetTrustedKey, SIGNATURE_TYPES, type SignatureFaultCode, verifySignature } from "./signing.ts";

/**
 * Result of a verification: the manifest of a genuine export, or the first wrong line and the problem with that line.
 */
export type Verdict = { ok: true; manifest: Manifest } | ({ ok: false } & ExportFault);

/** Code of a fault. docs/audit-format.md describes the codes. */
export type FaultCode =
  | "invalid_utf8"
  | "not_an_event"
  | "not_canonical"
  | "chain_mismatch"
  | "manifest_not_last"
  | "manifest_missing"
  | "not_a_manifest"
  | SignatureFaultCode
  | "manifest_unsupported"
  | "chain_not_signed"
  | "manifest_altered"
  | "count_mismatch"
  | "first_or_last_mismatch"
  | "unexpected_export";

interface LineFault {
  fault: FaultCode;
  problem: string;
}

interface ExportFault extends LineFault {
  line: number;
}

/**
 * Expected clinic and range of an export. Omitted members are not checked. Times are RFC 3339 in UTC with
 * milliseconds.
 */
interface ExpectedExport {
  clinic?: string | undefined;
  /** Null for an export from the start of the log. */
  from?: string | null | undefined;
  to?: string | undefined;
}

/**
 * Verifies that an export is complete and unaltered, using only the lines of the export and the trusted keys.
 *
 * The result names the first line that does not fit the hash chain. If an attacker recomputed the whole chain, all
 * lines fit that chain, but the chain differs from the signed marks. The marks then locate the first changed line
 * exactly in an export of up to 4,096 events, and otherwise the interval of lines that contains it.
 *
 * @param lines bytes of each line, including the line feed, if any
 * @param expectedExport compared with the signed manifest after all lines are verified
 */
export async function verifyExport(
  lines: AsyncIterable<Uint8Array>,
  getTrustedKey: GetTrustedKey,
  expectedExport: ExpectedExport = {},
): Promise<Verdict> {
  const summary = new ChainSummary();
  const rejectNextLine = (fault: FaultCode, problem: string): Verdict => ({
    ok: false,
    line: summary.count + 1,
    fault,
    problem,
  });
  let previousLine: Uint8Array | undefined;
  for await (const line of lines) {
    const lineFault = previousLine === undefined ? undefined : verifyEventLine(previousLine, summary);
    if (lineFault) return rejectNextLine(lineFault.fault, lineFault.problem);
    previousLine = line;
  }
  if (previousLine === undefined)
    return rejectNextLine("manifest_missing", "the file is empty; the manifest is missing");
  const lastText = decodeUtf8(previousLine);
  if (lastText === undefined) return rejectNextLine(INVALID_UTF8.fault, INVALID_UTF8.problem);
  if (eventLineSchema.safeParse(parseJson(lastText)).success) {
    const { fault, problem } = verifyEventLine(previousLine, summary) ?? MISSING_MANIFEST;
    return rejectNextLine(fault, problem);
  }
  const manifestOrFault = await verifyManifestLine(lastText, summary, getTrustedKey);
  if ("problem" in manifestOrFault) return { ok: false, ...manifestOrFault };
  const problem = describeDifferences(manifestOrFault, expectedExport);
  return problem === undefined ? { ok: true, manifest: manifestOrFault } : rejectNextLine("unexpected_export", problem);
}

const INVALID_UTF8: LineFault = { fault: "invalid_utf8", problem: "the line is not valid UTF-8" };

const MISSING_MANIFEST: LineFault = {
  fault: "manifest_missing",
  problem: "the file ends here; the manifest is missing, and events may be missing",
};

/** Returns the differences between a verified manifest and the expected export; undefined if they agree. */
function describeDifferences({ clinicId, stored }: Manifest, { clinic, from, to }: ExpectedExport): string | undefined {
  const mismatches: string[] = [];
  if (clinic !== undefined && clinicId !== clinic)
    mismatches.push(`expected clinic ${clinic}, but the manifest says ${clinicId}`);
  if (from !== undefined && stored.from !== from)
    mismatches.push(`expected from ${from ?? "start"}, but the manifest says ${stored.from ?? "start"}`);
  if (to !== undefined && stored.to !== to) mismatches.push(`expected to ${to}, but the manifest says ${stored.to}`);
  return mismatches.length > 0 ? `it is not the expected export: ${mismatches.join("; ")}` : undefined;
}

/** Verifies a line as the next event of the export, and adds the event to the summary. */
function verifyEventLine(line: Uint8Array, summary: ChainSummary): LineFault | undefined {
  const text = decodeUtf8(line);
  if (text === undefined) return INVALID_UTF8;
  const value = parseJson(text);
  const parseResult = eventLineSchema.safeParse(value);
  if (!parseResult.success) {
    return manifestLineSchema.safeParse(value).success
      ? { fault: "manifest_not_last", problem: "the manifest is not the last line" }
      : { fault: "not_an_event", problem: "the line is not an event" };
  }
  const { chain, event } = parseResult.data;
  if (!isCanonicalLine(text, value)) return NOT_CANONICAL;
  // The hash covers the text of the line, because the parsed event lacks a member named `__proto__`.
  if (computeNextLink(summary.link, text.slice(EVENT_START, EVENT_END)) !== chain)
    return {
      fault: "chain_mismatch",
      problem: "the line does not fit the hash chain: it was altered or inserted, or a line before it was removed",
    };
  summary.add(event, chain);
  return undefined;
}

/** Offsets of the event in a canonical line: after the link, and before the closing brace and the line feed. */
const EVENT_START = `{"chain":"${CHAIN_SEED}","event":`.length;
const EVENT_END = -2;

const NOT_CANONICAL: LineFault = { fault: "not_canonical", problem: "the line is not in its canonical form" };

/**
 * Verifies the last line of an export. Compares the events with the manifest inside the signature first, because the
 * readable copy of the manifest may be altered too.
 */
async function verifyManifestLine(
  text: string,
  summary: ChainSummary,
  getTrustedKey: GetTrustedKey,
): Promise<Manifest | ExportFault> {
  const line = summary.count + 1;
  const value = parseJson(text);
  const lineResult = manifestLineSchema.safeParse(value);
  if (!lineResult.success)
    return { line, fault: "not_a_manifest", problem: "the line is neither an event nor the signed manifest" };
  if (!isCanonicalLine(text, value)) return { line, ...NOT_CANONICAL };
  const signedPayload = await verifySignature(lineResult.data.signature, SIGNATURE_TYPES.export, getTrustedKey);
  if ("problem" in signedPayload) return { line, ...signedPayload };
  const manifestResult = manifestSchema.safeParse(parseJson(signedPayload.text));
  if (!manifestResult.success) {
    const problem = "the manifest has a format that this release does not support";
    return { line, fault: "manifest_unsupported", problem };
  }
  const manifest = manifestResult.data;
  if (manifest.chain !== summary.link) return locateChange(manifest.marks, summary);
  if (signedPayload.text !== toCanonicalJson(lineResult.data.manifest))
    return { line, fault: "manifest_altered", problem: "the manifest differs from the signed manifest" };
  const contentsFault = compareContents(manifest, summary);
  return contentsFault ? { line, ...contentsFault } : manifest;
}

/** Compares the events that the manifest describes with those of the file, whose hash chain ends with the same link. */
function compareContents({ count, first, last }: Manifest, summary: ChainSummary): LineFault | undefined {
  if (count !== summary.count) {
    const problem = `the manifest lists ${count} events, but the file contains ${summary.count}`;
    return { fault: "count_mismatch", problem };
  }
  if (toCanonicalJson({ first, last }) !== toCanonicalJson({ first: summary.first, last: summary.last }))
    return { fault: "first_or_last_mismatch", problem: "the manifest names a different first or last event" };
  return undefined;
}

/** Locates the first changed line of a file whose hash chain is valid, but differs from the signed hash chain. */
function locateChange(signedMarks: Manifest["marks"], summary: ChainSummary): ExportFault {
  const { firstLine, lastLine } = findFirstDifference(signedMarks, summary.marks.getMarks());
  const changedLinesText = firstLine === lastLine ? "the line was" : `a line from here up to line ${lastLine} was`;
  return {
    line: firstLine,
    fault: "chain_not_signed",
    problem: `${changedLinesText} changed after signing and the hash chain was recomputed, or the last events were removed`,
  };
}
