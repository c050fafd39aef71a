/**
 * The head of a stream: its last revision and what its metadata and deletions say about reading it.
 */
import type { StreamEnd } from "./append-rules.ts";

export interface StreamState extends StreamEnd {
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
export function describedStream(stream: string): string | undefined {
  return stream.startsWith("$$") ? stream.slice(2) : undefined;
}

/** First revision that a read of the stream returns. A metadata stream shows its newest event only. */
export function firstReadable(stream: string, state: StreamState): number {
  const maxCount = describedStream(stream) === undefined ? state.maxCount : 1;
  const byCount = maxCount > 0 ? state.last - maxCount + 1 : 0;
  return Math.max(0, state.truncateBefore, byCount);
}

/** Whether a read finds the stream at all. */
export function isReadable(state: StreamState): boolean {
  return state.last >= 0 && !state.softDeleted;
}
