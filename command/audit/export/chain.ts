import { createHash } from "node:crypto";
import canonicalize from "canonicalize";

/** Hash chain. Each link is the SHA-256 of the previous link and the canonical bytes (RFC 8785) of the event. */
export interface Chain {
  /** The last link, in hex. */
  readonly head: string;
  /** Adds an event. @param canonical its canonical JSON @returns the new link */
  add(canonical: string): string;
}

/** First input of every chain. */
const SEED = createHash("sha256").update("clinic-service audit export 1").digest();

export function createChain(): Chain {
  let link = SEED;
  return {
    get head() {
      return link.toString("hex");
    },
    add(canonical) {
      link = createHash("sha256").update(link).update(canonical, "utf8").digest();
      return link.toString("hex");
    },
  };
}

/**
 * Returns the canonical JSON of a value (RFC 8785). @throws {Error} for a value without JSON, such as a lone
 * surrogate
 */
export function canonicalJson(value: unknown): string {
  const text = canonicalize(value);
  if (text === undefined) throw new Error("the value has no JSON form");
  return text;
}
