import { createHash } from "node:crypto";
import type { Manifest } from "./manifest.ts";

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

/**
 * Marks: shortened links of a hash chain, one link per interval of lines. Marks locate the first difference between two
 * chains. They are too short to prove that two chains are equal.
 */
interface Marks {
  /** Number of lines from one mark to the next: 1, or a power of 2 for a long export. */
  every: number;
  links: string[];
}

const MAX_MARKS = 4_096;

const MARK_LENGTH = 16;

/**
 * Collects marks while the links of a hash chain are added. If the number of marks exceeds the maximum, every second
 * mark is dropped and the interval doubles.
 */
export function createMarkCollector(maxMarks = MAX_MARKS): { add(link: string): void; getMarks(): Marks } {
  let interval = 1;
  let links: string[] = [];
  let lineCount = 0;
  return {
    add(link) {
      lineCount += 1;
      if (lineCount % interval === 0) links.push(link.slice(0, MARK_LENGTH));
      if (links.length <= maxMarks) return;
      links = links.filter((_, index) => index % 2 === 1);
      interval *= 2;
    },
    getMarks: () => ({ every: interval, links }),
  };
}

/**
 * Locates the first difference between two hash chains.
 *
 * @returns the first and the last line of the interval that contains the difference, counted from 1
 */
export function findFirstDifference(left: Marks, right: Marks): { firstLine: number; lastLine: number } {
  const interval = Math.max(left.every, right.every);
  const [leftLinks, rightLinks] = [selectMarks(left, interval), selectMarks(right, interval)];
  let equalCount = 0;
  while (equalCount < leftLinks.length && leftLinks[equalCount] === rightLinks[equalCount]) equalCount += 1;
  return { firstLine: equalCount * interval + 1, lastLine: (equalCount + 1) * interval };
}

function selectMarks({ every, links }: Marks, interval: number): string[] {
  const step = interval / every;
  return links.filter((_, index) => (index + 1) % step === 0);
}
