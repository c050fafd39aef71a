import { compactVerify } from "jose";
import { ChainSummary, computeNextLink } from "./chain.ts";
import { isCanonicalLine, parseJson, toCanonicalJson } from "./json.ts";
import { eventLineSchema, type Manifest, manifestLineSchema, manifestSchema } from "./manifest.ts";
import { findFirstDifference } from "./marks.ts";
import { SIGNATURE_TYPE } from "./signing.ts";
import { type GetTrustedKey, UntrustedKeyError } from "./verify-key.ts";

/**
 * Result of a verification: the manifest of a genuine export, or the first wrong line and the problem with that line.
 */
export type Verdict = { ok: true; manifest: Manifest } | ({ ok: false } & ExportFault);

interface ExportFault {
  /** Number of the first wrong line, counted from 1. */
  line: number;
  problem: string;
}

/**
 * Expected clinic and range of an export. Omitted members are not checked. Times are RFC 3339 in UTC with
 * milliseconds.
 */
export interface ExpectedExport {
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
 * @param lines each line including the line ending, if any
 * @param expectedExport compared with the signed manifest after all lines are verified
 */
export async function verifyExport(
  lines: AsyncIterable<string>,
  getTrustedKey: GetTrustedKey,
  expectedExport: ExpectedExport = {},
): Promise<Verdict> {
  const summary = new ChainSummary();
  const rejectNextLine = (problem: string): Verdict => ({ ok: false, line: summary.count + 1, problem });
  let previousLine: string | undefined;
  for await (const line of lines) {
    const problem = previousLine === undefined ? undefined : verifyEventLine(previousLine, summary);
    if (problem !== undefined) return rejectNextLine(problem);
    previousLine = line;
  }
  if (previousLine === undefined) return rejectNextLine("the file is empty; the manifest is missing");
  if (eventLineSchema.safeParse(parseJson(previousLine)).success) {
    const problem = verifyEventLine(previousLine, summary);
    return rejectNextLine(problem ?? "the file ends here; the manifest is missing, and events may be missing");
  }
  const manifestOrFault = await verifyManifestLine(previousLine, summary, getTrustedKey);
  if ("problem" in manifestOrFault) return { ok: false, ...manifestOrFault };
  const problem = describeDifferences(manifestOrFault, expectedExport);
  return problem === undefined ? { ok: true, manifest: manifestOrFault } : rejectNextLine(problem);
}

/** Returns the differences between a verified manifest and the expected export; undefined if there are none. */
function describeDifferences({ clinicId, stored }: Manifest, { clinic, from, to }: ExpectedExport): string | undefined {
  const mismatches: string[] = [];
  if (clinic !== undefined && clinicId !== clinic)
    mismatches.push(`expected clinic ${clinic}, but the manifest says ${clinicId}`);
  if (from !== undefined && stored.from !== from)
    mismatches.push(`expected from ${from ?? "start"}, but the manifest says ${stored.from ?? "start"}`);
  if (to !== undefined && stored.to !== to) mismatches.push(`expected to ${to}, but the manifest says ${stored.to}`);
  return mismatches.length > 0 ? `it is not the expected export: ${mismatches.join("; ")}` : undefined;
}

/**
 * Verifies a line as the next event of the export, and adds the event to the summary.
 *
 * @returns the problem of the line; undefined if there is none
 */
function verifyEventLine(text: string, summary: ChainSummary): string | undefined {
  const value = parseJson(text);
  const parseResult = eventLineSchema.safeParse(value);
  if (!parseResult.success) {
    return manifestLineSchema.safeParse(value).success
      ? "the manifest is not the last line"
      : "the line is not an event";
  }
  const { chain, event } = parseResult.data;
  if (!isCanonicalLine(text, value)) return "the line is not in its canonical form";
  if (computeNextLink(summary.link, toCanonicalJson(event)) !== chain)
    return "the line does not fit the hash chain: it was altered or inserted, or a line before it was removed";
  summary.add(event, chain);
  return undefined;
}

/**
 * Verifies the last line of an export. Compares the events with the manifest inside the signature first, because the
 * readable copy of the manifest may be altered too.
 */
async function verifyManifestLine(
  text: string,
  summary: ChainSummary,
  getTrustedKey: GetTrustedKey,
): Promise<Manifest | ExportFault> {
  const toFault = (problem: string): ExportFault => ({ line: summary.count + 1, problem });
  const value = parseJson(text);
  const lineResult = manifestLineSchema.safeParse(value);
  if (!lineResult.success) return toFault("the line is neither an event nor the signed manifest");
  if (!isCanonicalLine(text, value)) return toFault("the line is not in its canonical form");
  const signedPayload = await verifySignature(lineResult.data.signature, getTrustedKey);
  if ("problem" in signedPayload) return toFault(signedPayload.problem);
  const manifestResult = manifestSchema.safeParse(parseJson(signedPayload.text));
  if (!manifestResult.success) return toFault("the manifest has a format that this release does not support");
  const { count, chain, first, last, marks } = manifestResult.data;
  if (chain !== summary.link) return locateChange(marks, summary);
  if (signedPayload.text !== toCanonicalJson(lineResult.data.manifest))
    return toFault("the manifest differs from the signed manifest");
  if (count !== summary.count)
    return toFault(`the manifest lists ${count} events, but the file contains ${summary.count}`);
  if (toCanonicalJson({ first, last }) !== toCanonicalJson({ first: summary.first, last: summary.last }))
    return toFault("the manifest names a different first or last event");
  return manifestResult.data;
}

/** Locates the first changed line of a file whose hash chain is valid, but differs from the signed hash chain. */
function locateChange(signedMarks: Manifest["marks"], summary: ChainSummary): ExportFault {
  const { firstLine, lastLine } = findFirstDifference(signedMarks, summary.marks.getMarks());
  const changedLinesText = firstLine === lastLine ? "the line was" : `a line from here up to line ${lastLine} was`;
  return {
    line: firstLine,
    problem: `${changedLinesText} changed after signing and the hash chain was recomputed, or the last events were removed`,
  };
}

async function verifySignature(
  signature: string,
  getTrustedKey: GetTrustedKey,
): Promise<{ text: string } | { problem: string }> {
  try {
    const options = { algorithms: ["EdDSA"] };
    const { payload, protectedHeader } = await compactVerify(signature, getTrustedKey, options);
    if (protectedHeader.typ !== SIGNATURE_TYPE) return { problem: "the signature is not for an audit export" };
    return { text: Buffer.from(payload).toString("utf8") };
  } catch (error) {
    if (error instanceof UntrustedKeyError) return { problem: error.message };
    return { problem: "the signature is invalid" };
  }
}
