import { compactVerify } from "jose";
import { type Chain, canonicalJson, createChain } from "./chain.ts";
import { eventLine, type Manifest, manifest, manifestLine } from "./manifest.ts";
import { SIGNATURE_TYPE } from "./signing.ts";
import { type TrustedKeys, UntrustedKey } from "./verify-key.ts";

/** What came of it: the manifest of a file that is as it was made, or the first line that is not. */
export type Verdict = { ok: true; manifest: Manifest } | { ok: false; line: number; problem: string };

/** What has been read of a file. */
interface Seen {
  chain: Chain;
  count: number;
  first: Manifest["first"];
  last: Manifest["last"];
}

/**
 * Proves that an export is complete and unaltered, from its lines and the trusted key alone.
 *
 * A line that does not fit the chain is named. Where somebody made the whole chain anew, the lines fit each other, and
 * it is the manifest, the last line, that does not.
 *
 * @param lines each with its line end, the last one too where it has one
 */
export async function verifyExport(lines: AsyncIterable<string>, keys: TrustedKeys): Promise<Verdict> {
  const seen: Seen = { chain: createChain(), count: 0, first: null, last: null };
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
  const judged = await judgeManifest(pending, value, seen, keys);
  return typeof judged === "string"
    ? { ok: false, line: number, problem: judged }
    : { ok: true, manifest: judged };
}

/** @returns what is wrong with the line */
function addEvent(text: string, seen: Seen): string | undefined {
  const value = parse(text);
  const line = eventLine.safeParse(value);
  if (!line.success) {
    return manifestLine.safeParse(value).success ? "the manifest stands before the end" : "it is no event";
  }
  const { chain, event } = line.data;
  if (text !== `${canonicalJson(value)}\n`) return "it is not written as it was";
  if (seen.chain.add(canonicalJson(event)) !== chain) {
    return "it is not the line that followed here: it was altered or put in, or one was left out";
  }
  const { position, id } = event;
  seen.count += 1;
  seen.first ??= { position, id };
  seen.last = { position, id };
  return undefined;
}

/** @returns the manifest, or what is wrong with it */
async function judgeManifest(
  text: string,
  value: unknown,
  seen: Seen,
  keys: TrustedKeys,
): Promise<Manifest | string> {
  const line = manifestLine.safeParse(value);
  if (!line.success) return "it is neither an event nor the signed manifest";
  if (text !== `${canonicalJson(value)}\n`) return "it is not written as it was";
  const signed = await readSigned(line.data.signature, keys);
  if ("problem" in signed) return signed.problem;
  if (signed.text !== canonicalJson(line.data.manifest)) return "the manifest is not the one that was signed";
  const known = manifest.safeParse(line.data.manifest);
  if (!known.success) return "the manifest is of a form that is not known here";
  const { count, chain, first, last } = known.data;
  if (count !== seen.count) return `the manifest counts ${count} events, the file holds ${seen.count}`;
  if (chain !== seen.chain.head) return "the lines before fit each other, but are not those that were signed";
  const ends = canonicalJson({ first, last }) === canonicalJson({ first: seen.first, last: seen.last });
  return ends ? known.data : "the manifest names other first and last events";
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

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
