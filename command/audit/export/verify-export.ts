import { compactVerify } from "jose";
import { type Chain, canonicalJson, createChain } from "./chain.ts";
import { eventLine, type Manifest, manifest, manifestLine } from "./manifest.ts";
import { createMarks, firstDifference } from "./marks.ts";
import { SIGNATURE_TYPE } from "./signing.ts";
import { type TrustedKeys, UntrustedKeyError } from "./verify-key.ts";

/** Result of a verification: the manifest of a genuine file, or the first line that is wrong. */
export type Verdict = { ok: true; manifest: Manifest } | ({ ok: false } & Fault);

/** The first line that is wrong, counted from 1, and the reason. */
interface Fault {
  line: number;
  problem: string;
}

/**
 * Expected clinic and range of an export. Omitted members are not checked. `from` null expects an export from the
 * start of the log. Times are RFC 3339 in UTC with milliseconds.
 */
export interface Expected {
  clinicId?: string | undefined;
  from?: string | null | undefined;
  to?: string | undefined;
}

/** Summary of the lines read so far. */
interface Seen {
  chain: Chain;
  marks: ReturnType<typeof createMarks>;
  count: number;
  first: Manifest["first"];
  last: Manifest["last"];
}

/**
 * Verifies that an export is complete and unaltered, using only its lines and the trusted keys.
 *
 * The result names the first line that does not fit the hash chain. If somebody recomputed the whole chain, the lines
 * fit each other but not the signed marks. The marks then locate the first changed line: exactly in an export of up
 * to 4,096 events, else within a few lines.
 *
 * @param lines each with its line ending, if it has one
 * @param expected compared with the signed manifest after all lines are verified
 */
export async function verifyExport(
  lines: AsyncIterable<string>,
  keys: TrustedKeys,
  expected: Expected = {},
): Promise<Verdict> {
  const seen: Seen = { chain: createChain(), marks: createMarks(), count: 0, first: null, last: null };
  let number = 0;
  let pending: string | undefined;
  for await (const text of lines) {
    if (pending !== undefined) {
      number += 1;
      const problem = addEvent(pending, seen);
      if (problem !== undefined) return { ok: false, line: number, problem };
    }
    pending = text;
  }
  number += 1;
  if (pending === undefined)
    return { ok: false, line: 1, problem: "the file is empty; the manifest is missing" };
  const value = parse(pending);
  if (eventLine.safeParse(value).success) {
    const problem = addEvent(pending, seen);
    if (problem !== undefined) return { ok: false, line: number, problem };
    return {
      ok: false,
      line: number + 1,
      problem: "the file ends here; the manifest is missing, and events may be missing",
    };
  }
  const judged = await judgeEnd(pending, value, seen, keys);
  if ("problem" in judged) return { ok: false, ...judged };
  const problem = unexpected(judged, expected);
  return problem === undefined ? { ok: true, manifest: judged } : { ok: false, line: number, problem };
}

/** @returns the difference between a verified manifest and the expectation; undefined if there is none */
function unexpected(
  { clinicId, stored }: Manifest,
  { clinicId: wanted, from, to }: Expected,
): string | undefined {
  const differences: string[] = [];
  if (wanted !== undefined && clinicId !== wanted)
    differences.push(`expected clinic ${wanted}, the manifest says ${clinicId}`);
  if (from !== undefined && stored.from !== from)
    differences.push(`expected from ${from ?? "start"}, the manifest says ${stored.from ?? "start"}`);
  if (to !== undefined && stored.to !== to)
    differences.push(`expected to ${to}, the manifest says ${stored.to}`);
  return differences.length > 0 ? `it is not the expected export: ${differences.join("; ")}` : undefined;
}

/** @returns the problem of the line; undefined if there is none */
function addEvent(text: string, seen: Seen): string | undefined {
  const value = parse(text);
  const line = eventLine.safeParse(value);
  if (!line.success) {
    return manifestLine.safeParse(value).success
      ? "the manifest is not the last line"
      : "the line is not an event";
  }
  const { chain, event } = line.data;
  if (!isCanonical(text, value)) return "the line is not in its canonical form";
  const link = seen.chain.add(canonicalJson(event));
  if (link !== chain) {
    return "the line does not fit the hash chain: it was altered or inserted, or a line before it was removed";
  }
  const { position, id } = event;
  seen.marks.add(link);
  seen.count += 1;
  seen.first ??= { position, id };
  seen.last = { position, id };
  return undefined;
}

/**
 * Checks the last line. The events are checked against the signed text first, because the manifest itself may be
 * altered.
 */
async function judgeEnd(
  text: string,
  value: unknown,
  seen: Seen,
  keys: TrustedKeys,
): Promise<Manifest | Fault> {
  const here = (problem: string): Fault => ({ line: seen.count + 1, problem });
  const line = manifestLine.safeParse(value);
  if (!line.success) return here("the line is neither an event nor the signed manifest");
  if (!isCanonical(text, value)) return here("the line is not in its canonical form");
  const signed = await readSigned(line.data.signature, keys);
  if ("problem" in signed) return here(signed.problem);
  const known = manifest.safeParse(parse(signed.text));
  if (!known.success) return here("the manifest has a format that this release does not support");
  const { count, chain, first, last, marks } = known.data;
  if (chain !== seen.chain.head) return partingOf(marks, seen);
  if (signed.text !== canonicalJson(line.data.manifest))
    return here("the manifest differs from the signed manifest");
  if (count !== seen.count)
    return here(`the manifest lists ${count} events, but the file contains ${seen.count}`);
  const ends = canonicalJson({ first, last }) === canonicalJson({ first: seen.first, last: seen.last });
  return ends ? known.data : here("the manifest names a different first or last event");
}

/** Locates the first changed line if the lines fit each other but a different chain was signed. */
function partingOf(signed: Manifest["marks"], seen: Seen): Fault {
  const { first, last } = firstDifference(signed, seen.marks.marks());
  const changed = first === last ? "the line was" : `a line from here up to line ${last} was`;
  return {
    line: first,
    problem: `${changed} changed after signing and the hash chain recomputed, or the last events were removed`,
  };
}

async function readSigned(
  signature: string,
  keys: TrustedKeys,
): Promise<{ text: string } | { problem: string }> {
  try {
    const options = { algorithms: ["EdDSA"] };
    const { payload, protectedHeader } = await compactVerify(signature, keys.getKey, options);
    if (protectedHeader.typ !== SIGNATURE_TYPE)
      return { problem: "the signature is not for an audit export" };
    return { text: Buffer.from(payload).toString("utf8") };
  } catch (error) {
    if (error instanceof UntrustedKeyError) return { problem: error.message };
    return { problem: "the signature is invalid" };
  }
}

/** Returns whether a line is the canonical JSON of its value with a line ending. */
function isCanonical(text: string, value: unknown): boolean {
  try {
    return text === `${canonicalJson(value)}\n`;
  } catch {
    return false;
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
