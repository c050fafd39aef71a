import { createHash } from "node:crypto";

/** Hash chain. Each link is the SHA-256 of the previous link and of an event's canonical JSON (RFC 8785). */
export interface HashChain {
  /** The last link, in hex. */
  readonly head: string;
  /**
   * Adds an event to the chain.
   *
   * @param canonicalEvent canonical JSON of the event
   * @returns the new link, in hex
   */
  add(canonicalEvent: string): string;
}

/** The link that precedes the first event of every chain. */
const CHAIN_SEED = createHash("sha256").update("clinic-service audit export 1").digest();

export function createHashChain(): HashChain {
  let link = CHAIN_SEED;
  return {
    get head() {
      return link.toString("hex");
    },
    add(canonicalEvent) {
      link = createHash("sha256").update(link).update(canonicalEvent, "utf8").digest();
      return link.toString("hex");
    },
  };
}
