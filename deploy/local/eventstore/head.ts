/**
 * The head of a stream: its last revision and what its metadata and deletions say about reading it.
 */
import { NO_STREAM, type StreamState } from "./append-rules.ts";

export interface Head extends StreamState {
  /** First revision that reads return, from the metadata's `$tb`. */
  readonly truncateBefore: number;
  /** Number of newest events that reads return, from `$maxCount`; 0 for all. */
  readonly maxCount: number;
}

/** The head of a stream that was never written. */
const NEW_HEAD: Head = {
  last: NO_STREAM,
  tombstoned: false,
  softDeleted: false,
  truncateBefore: 0,
  maxCount: 0,
};

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

/** The stored form of a head. */
export function encodeHead(head: Head): Buffer {
  return Buffer.from(
    JSON.stringify([
      head.last,
      head.tombstoned ? 1 : 0,
      head.softDeleted ? 1 : 0,
      head.truncateBefore,
      head.maxCount,
    ]),
  );
}

/** Reads what encodeHead wrote; undefined gives the head of a new stream. */
export function decodeHead(value: Buffer | undefined): Head {
  if (value === undefined) return NEW_HEAD;
  const [last = NO_STREAM, tombstoned = 0, softDeleted = 0, truncateBefore = 0, maxCount = 0] = JSON.parse(
    value.toString("latin1"),
  ) as number[];
  return { last, tombstoned: tombstoned === 1, softDeleted: softDeleted === 1, truncateBefore, maxCount };
}
