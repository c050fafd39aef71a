/**
 * The head of a stream: its last revision and what its metadata and deletions say about reading it.
 */
import type { StreamState } from "./append-rules.ts";

export interface Head extends StreamState {
  /** First revision that reads return, from the metadata's `$tb`. */
  readonly truncateBefore: number;
  /** Number of newest events that reads return, from `$maxCount`; 0 for all. */
  readonly maxCount: number;
}

/** Metadata streams are named for the stream that they describe. */
export function metadataStreamOf(stream: string): string {
  return `$$${stream}`;
}

/** The stream that a metadata stream describes; undefined for any other stream. */
export function describedBy(stream: string): string | undefined {
  return stream.startsWith("$$") ? stream.slice(2) : undefined;
}

/** First revision that a read of the stream returns. A metadata stream shows its newest event only. */
export function firstReadable(stream: string, head: Head): number {
  const maxCount = describedBy(stream) === undefined ? head.maxCount : 1;
  const byCount = maxCount > 0 ? head.last - maxCount + 1 : 0;
  return Math.max(0, head.truncateBefore, byCount);
}

/** Whether a read finds the stream at all. */
export function isReadable(head: Head): boolean {
  return head.last >= 0 && !head.softDeleted;
}
