import { createHash } from "node:crypto";
import canonicalize from "canonicalize";

/** Each link is the SHA-256 of the link before and the canonical bytes (RFC 8785) of the event. */
export interface Chain {
  /** The latest link, hex. */
  readonly head: string;
  /** Adds an event. @param canonical its canonical JSON @returns the new link */
  add(canonical: string): string;
}

/** What every chain begins with. */
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

/** The one JSON text of a value (RFC 8785). @throws {Error} for a value that has none, such as half a surrogate pair */
export function canonicalJson(value: unknown): string {
  const text = canonicalize(value);
  if (text === undefined) throw new Error("a value without JSON");
  return text;
}
