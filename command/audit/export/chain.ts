import { createHash } from "node:crypto";

/** The link that precedes the first event in the hash chain of every export. Links are hexadecimal strings. */
export const CHAIN_SEED = createHash("sha256").update("clinic-service audit export 1").digest("hex");

/**
 * Returns the link of an event in the hash chain: the SHA-256 of the previous link followed by the event.
 *
 * @param canonicalEvent canonical JSON (RFC 8785) of the event
 */
export function computeNextLink(previousLink: string, canonicalEvent: string): string {
  return createHash("sha256").update(previousLink, "hex").update(canonicalEvent, "utf8").digest("hex");
}
