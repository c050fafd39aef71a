import { createHash } from "node:crypto";
import type { Manifest } from "./manifest.ts";
import { createMarkCollector } from "./marks.ts";

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

/** Summary of the events of an export that have been written or verified so far. */
export class ChainSummary {
  /** The last link of the hash chain. */
  link = CHAIN_SEED;
  count = 0;
  first: Manifest["first"] = null;
  last: Manifest["last"] = null;
  readonly marks = createMarkCollector();

  /** Adds the next event, whose link was computed from the last link. */
  add({ position, id }: { position: string; id: string }, link: string): void {
    this.link = link;
    this.marks.add(link);
    this.count += 1;
    this.first ??= { position, id };
    this.last = { position, id };
  }
}
