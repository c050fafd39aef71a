import type { ProposedEvent } from "../../../shared/eventstore/append.ts";

export interface StoredEvent extends ProposedEvent {
  stream: string;
  /** Revision in the stream, from 0. A tombstone has a revision of 2³¹ - 1 or 2⁶³ - 1. */
  revision: bigint;
  position: StoredPosition;
}

export interface StoredPosition {
  commit: bigint;
  prepare: bigint;
}

export interface EncodedEvent extends StoredEvent {
  encodedBytes: Buffer;
}

/** Highest revision of an event that is not a tombstone. Tombstones have 2³¹ - 1 or, in later releases, 2⁶³ - 1. */
const MAX_EVENT_REVISION = 2n ** 31n - 2n;

/** Returns true for a tombstone: the last event of a permanently deleted stream. */
export function isTombstone({ type, revision }: StoredEvent): boolean {
  return type === "$streamDeleted" && revision > MAX_EVENT_REVISION;
}

/**
 * Encodes all parts of an event that the copy must preserve. Two events are equal if their encodings are equal. The
 * encoding consists of stream, revision, id, type, content type, data and metadata. Each field is preceded by its
 * length in bytes, as a 32-bit big-endian number. Texts are UTF-8, and the revision is a decimal text.
 *
 * A tombstone has the revision `tombstone`. Its other fields except stream and type are empty, because the server sets
 * them.
 */
export function encodeEvent(event: StoredEvent): Buffer {
  const { stream, revision, id, type, contentType, data, metadata } = event;
  const fields = isTombstone(event)
    ? [stream, "tombstone", "", type, "", "", ""]
    : [stream, String(revision), id, type, contentType, data, metadata];
  const fieldBuffers = fields.map((field) => (typeof field === "string" ? Buffer.from(field) : field));
  const encodedBytes = Buffer.allocUnsafe(fieldBuffers.reduce((total, { length }) => total + 4 + length, 0));
  let offset = 0;
  for (const field of fieldBuffers) {
    offset = encodedBytes.writeUInt32BE(field.length, offset);
    encodedBytes.set(field, offset);
    offset += field.length;
  }
  return encodedBytes;
}
