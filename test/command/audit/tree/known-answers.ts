import fs from "node:fs";

interface KnownAnswers {
  leaves: string[];
  /** Root hashes of the trees with 0 to 8 leaves. */
  roots: string[];
  /** Paths of leaves, which are counted from 0. */
  leafPaths: { index: number; size: number; path: string[] }[];
  /** Paths between two sizes of the tree. */
  consistencyPaths: { from: number; to: number; path: string[] }[];
}

/**
 * Known answers for RFC 6962: the leaves, root hashes and paths with which Certificate Transparency logs are tested. All
 * values are in hex.
 */
export const knownAnswers: KnownAnswers = JSON.parse(
  fs.readFileSync(new URL("./vectors/rfc6962.json", import.meta.url), "utf8"),
);
