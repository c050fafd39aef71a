/**
 * Keys of the LevelDB database of earlier releases. The first byte of a key is its kind:
 *
 *     e <position, 8 bytes>                                  → record of one event
 *     r <name length, 2 bytes> <name> <revision, 8 bytes>    → position, size and id of one revision
 *     h <name>                                               → state of one stream
 *     v                                                      → format version
 */
import { readSafeInteger } from "../model/bytes.ts";

/** Range of all keys of one kind. */
export interface KeyRange {
  readonly gt: Buffer;
  readonly lt: Buffer;
}

export const FORMAT_KEY = Buffer.from("v");
export const EVENT_KEY_RANGE: KeyRange = { gt: Buffer.from("e"), lt: Buffer.from("f") };
export const REVISION_KEY_RANGE: KeyRange = { gt: Buffer.from("r"), lt: Buffer.from("s") };
export const STREAM_STATE_KEY_RANGE: KeyRange = { gt: Buffer.from("h"), lt: Buffer.from("i") };

/** Parses the key of an event. Returns the event's position. */
export function parseEventKey(key: Buffer): number {
  return readSafeInteger(key, 1);
}

/** Parses the key of a revision. Returns the stream name and the revision. */
export function parseRevisionKey(key: Buffer): { stream: string; revision: number } {
  const end = key.length - 8;
  return { stream: key.toString("utf8", 3, end), revision: readSafeInteger(key, end) };
}

/** Parses the value that is stored under the key of a revision. Returns the event's position. */
export function parseRevisionValue(value: Buffer): number {
  return readSafeInteger(value, 0);
}

/** Parses the key of a stream state. Returns the stream name. */
export function parseStreamStateKey(key: Buffer): string {
  return key.toString("utf8", 1);
}
