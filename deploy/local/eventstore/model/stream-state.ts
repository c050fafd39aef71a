/**
 * State of a stream: its last revision, and the effect of metadata and deletions on reads.
 */
import type { StreamEnd } from "./append-rules.ts";

export interface StreamState extends StreamEnd {
  /** First revision that reads return, from the metadata's `$tb`. */
  readonly truncateBefore: number;
  /** Number of newest events that reads return, from `$maxCount`; 0 for all. */
  readonly maxCount: number;
}

/** Returns the name of the stream that holds a stream's metadata. */
export function metadataStreamOf(stream: string): string {
  return `$$${stream}`;
}

/** Returns the stream whose metadata a stream holds; undefined if it is not a metadata stream. */
export function describedStream(stream: string): string | undefined {
  return stream.startsWith("$$") ? stream.slice(2) : undefined;
}

/** Returns the first revision that reads return. A metadata stream returns only its newest event. */
export function firstReadable(stream: string, state: StreamState): number {
  const maxCount = describedStream(stream) === undefined ? state.maxCount : 1;
  const byCount = maxCount > 0 ? state.last - maxCount + 1 : 0;
  return Math.max(0, state.truncateBefore, byCount);
}

/** Tells whether reads find the stream. */
export function isReadable(state: StreamState): boolean {
  return state.last >= 0 && !state.softDeleted;
}
