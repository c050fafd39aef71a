import type { AppendTarget } from "./append-rules.ts";

/** State of a stream: its last revision, and the effect of metadata and deletions on reads. */
export interface StreamState extends AppendTarget {
  /** First revision that reads return, from `$tb` in the metadata. */
  readonly truncateBefore: number;
  /** Maximum number of events that reads return, from `$maxCount` in the metadata. 0 means that all are returned. */
  readonly maxCount: number;
  /** Maximum age in seconds of the events that reads return, from `$maxAge` in the metadata. 0 means no maximum. */
  readonly maxAgeSeconds: number;
}

/** Returns the name of the metadata stream of a stream. */
export function getMetadataStream(stream: string): string {
  return `$$${stream}`;
}

/** Returns the stream that a metadata stream describes; undefined if the name does not belong to a metadata stream. */
export function getOriginalStream(stream: string): string | undefined {
  return stream.startsWith("$$") ? stream.slice(2) : undefined;
}

/**
 * Returns the first revision that reads may return. For a metadata stream, this is the revision of the newest event.
 */
export function getFirstReadableRevision(stream: string, state: StreamState): number {
  const maxCount = getOriginalStream(stream) === undefined ? state.maxCount : 1;
  const firstRetainedRevision = maxCount > 0 ? state.lastRevision - maxCount + 1 : 0;
  return Math.max(0, state.truncateBefore, firstRetainedRevision);
}

/** Returns true if the stream has events and is not soft-deleted. Reads do not find any other stream. */
export function isReadable(state: StreamState): boolean {
  return state.lastRevision >= 0 && !state.isSoftDeleted;
}
