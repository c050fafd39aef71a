import { compactVerify } from "jose";
import { type Chain, canonicalJson, createChain } from "./chain.ts";
import { eventLine, type Manifest, manifest, manifestLine } from "./manifest.ts";
import { createMarks, firstDifference } from "./marks.ts";
import { SIGNATURE_TYPE } from "./signing.ts";
import { type TrustedKeys, UntrustedKey } from "./verify-key.ts";

/** What came of it: the manifest of a file that is as it was made, or the first line that is not. */
export type Verdict = { ok: true; manifest: Manifest } | ({ ok: false } & Fault);

/** The first line that is not as it was, from 1, and why. */
interface Fault {
  line: number;
  problem: string;
}

/**
 * What an export is expected to hold. What is left out is not checked; `from` null expects an export from the log's
 * beginning. Times are RFC 3339 in UTC with milliseconds.
 */
export interface Expected {
  clinicId?: string | undefined;
  from?: string | null | undefined;
  to?: string | undefined;
}

/** What has been read of a file. */
interface Seen {
  chain: Chain;
  marks: ReturnType<typeof createMarks>;
  count: number;
  first: Manifest["first"];
  last: Manifest["last"];
}

/**
 * Proves that an export is complete and unaltered, from its lines and the trusted key alone.
 *
 * A line that does not fit the chain is named. Where somebody made the whole chain anew, the lines fit each other, but
 * not the marks that were signed: they tell the first line that is another one, exactly in an export of up to 4,096
 * events, and else within a few lines.
 *
 * @param lines each with its line end, the last one too where it has one
 * @param expected compared with the signed manifest, once all lines are proven
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
    return { ok: false, line: 1, problem: "the file is empty: its manifest is missing" };
  const value = parse(pending);
  if (eventLine.safeParse(value).success) {
    const problem = addEvent(pending, seen);
    if (problem !== undefined) return { ok: false, line: number, problem };
    return { ok: false, line: number + 1, problem: "the file ends here: lines and the manifest are missing" };
  }
  const judged = await judgeEnd(pending, value, seen, keys);
  if ("problem" in judged) return { ok: false, ...judged };
  const problem = unexpected(judged, expected);
  return problem === undefined ? { ok: true, manifest: judged } : { ok: false, line: number, problem };
}

/** @returns how a proven manifest differs from what is expected */
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
  return differences.length > 0 ? `it is another export: ${differences.join("; ")}` : undefined;
}

/** @returns what is wrong with the line */
function addEvent(text: string, seen: Seen): string | undefined {
  const value = parse(text);
  const line = eventLine.safeParse(value);
  if (!line.success) {
    return manifestLine.safeParse(value).success ? "the manifest stands before the end" : "it is no event";
  }
  const { chain, event } = line.data;
  if (!isCanonical(text, value)) return "it is not written as it was";
  const link = seen.chain.add(canonicalJson(event));
  if (link !== chain) {
    return "it is not the line that followed here: it was altered or put in, or one was left out";
  }
  const { position, id } = event;
  seen.marks.add(link);
  seen.count += 1;
  seen.first ??= { position, id };
  seen.last = { position, id };
  return undefined;
}

/** The last line. The lines before are judged first, by what was signed, whatever else the manifest says by now. */
async function judgeEnd(
  text: string,
  value: unknown,
  seen: Seen,
  keys: TrustedKeys,
): Promise<Manifest | Fault> {
  const here = (problem: string): Fault => ({ line: seen.count + 1, problem });
  const line = manifestLine.safeParse(value);
  if (!line.success) return here("it is neither an event nor the signed manifest");
  if (!isCanonical(text, value)) return here("it is not written as it was");
  const signed = await readSigned(line.data.signature, keys);
  if ("problem" in signed) return here(signed.problem);
  const known = manifest.safeParse(parse(signed.text));
  if (!known.success) return here("the manifest is of a form that is not known here");
  const { count, chain, first, last, marks } = known.data;
  if (chain !== seen.chain.head) return partingOf(marks, seen);
  if (signed.text !== canonicalJson(line.data.manifest))
    return here("the manifest is not the one that was signed");
  if (count !== seen.count) return here(`the manifest counts ${count} events, the file holds ${seen.count}`);
  const ends = canonicalJson({ first, last }) === canonicalJson({ first: seen.first, last: seen.last });
  return ends ? known.data : here("the manifest names other first and last events");
}

/** The lines fit each other, but another chain was signed. */
function partingOf(signed: Manifest["marks"], seen: Seen): Fault {
  const { first, last } = firstDifference(signed, seen.marks.marks());
  const among = first === last ? "it is" : `it or one of those up to line ${last} is`;
  return {
    line: first,
    problem: `${among} not the line that was signed: the chain was made anew, or the last lines left out`,
  };
}

async function readSigned(
  signature: string,
  keys: TrustedKeys,
): Promise<{ text: string } | { problem: string }> {
  try {
    const options = { algorithms: ["EdDSA"] };
    const { payload, protectedHeader } = await compactVerify(signature, keys.getKey, options);
    if (protectedHeader.typ !== SIGNATURE_TYPE) return { problem: "the signature is for something else" };
    return { text: Buffer.from(payload).toString("utf8") };
  } catch (error) {
    if (error instanceof UntrustedKey) return { problem: error.message };
    return { problem: "the signature does not hold" };
  }
}

/** Whether a line is the one way to write what it says, and ended. What has no such way was never written. */
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
