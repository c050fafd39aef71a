// @ts-expect-error The page verifies exports with the same module, so it is JavaScript without types.
import * as verifier from "../page/assets/verify-export.js";
import type { Manifest } from "./manifest.ts";

/** Reason why verification of an export, a tree head or a proof failed. `fault` is a code from docs/audit-format.md. */
export interface Fault {
  fault: string;
  problem: string;
}

/** Result of a verification: the manifest of a genuine export, or the first wrong line and its problem. */
export type Verdict = { ok: true; manifest: Manifest } | ({ ok: false; line: number } & Fault);

interface Verifier {
  splitLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void>;
  isThumbprint(text: string): boolean;
  readThumbprints(text: string): Promise<Thumbprints | undefined>;
  verifySignature(signature: string, type: string, thumbprints: Thumbprints): Promise<{ text: string } | Fault>;
  verifyExport(
    lines: AsyncIterable<Uint8Array>,
    thumbprints: Thumbprints,
    expected: { clinic?: string | undefined; from?: string | null | undefined; to?: string | undefined },
  ): Promise<Verdict>;
}

/** Thumbprints (RFC 7638) of the keys that a verifier trusts. */
export type Thumbprints = ReadonlySet<string>;

export const { splitLines, isThumbprint, readThumbprints, verifySignature, verifyExport } = verifier as Verifier;
