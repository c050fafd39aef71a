/**
 * Keys of the LevelDB database of earlier releases. The first byte of a key is its kind:
 *
 *     e <position, 8 bytes>                                  → record of one event
 *     r <name length, 2 bytes> <name> <revision, 8 bytes>    → position, size and id of one revision
 *     h <name>                                               → state of one stream
 *     v                                                      → format version
 */
import { readNumber } from "../model/bytes.ts";

interface KeyRange {
  readonly gt: Buffer;
  readonly lt: Buffer;
}

export const FORMAT_KEY = Buffer.from("v");
export const EVENTS: KeyRange = { gt: Buffer.from("e"), lt: Buffer.from("f") };
export const REVISIONS: KeyRange = { gt: Buffer.from("r"), lt: Buffer.from("s") };
export const STREAM_STATES: KeyRange = { gt: Buffer.from("h"), lt: Buffer.from("i") };

/** Returns the position of an event from its key. */
export function positionOfKey(key: Buffer): number {
  return readNumber(key, 1);
}

/** Returns stream and revision from the key of a revision. */
export function revisionOfKey(key: Buffer): { stream: string; revision: number } {
  const end = key.length - 8;
  return { stream: key.toString("utf8", 3, end), revision: readNumber(key, end) };
}

/** Returns the position of an event from the value of its revision. */
export function positionInValue(value: Buffer): number {
  return readNumber(value, 0);
}

/** Returns the stream name from the key of a stream state. */
export function streamOfStateKey(key: Buffer): string {
  return key.toString("utf8", 1);
}
