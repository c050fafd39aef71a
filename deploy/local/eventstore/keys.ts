/**
 * Keys of the database. The first byte names the kind, so that kinds never mix:
 *
 *     e <position, 8 bytes>                                  → record of one event
 *     r <name length, 2 bytes> <name> <revision, 8 bytes>    → index entry of one revision
 *     h <name>                                               → head of one stream
 *     v                                                      → format version
 *
 * The name's length stands before the name. Two names of one length differ in the name, two of different
 * lengths differ in the length, so no name, however odd, can fall into the range of another.
 */

const EVENT = 0x65;
const REVISION = 0x72;
const HEAD = 0x68;
const TWO_POW_32 = 0x1_0000_0000;

/** Where the format version is stored. */
export const FORMAT_KEY = Buffer.from("v");

/** Every event key lies between these two, both exclusive. */
export const EVENTS_BELOW = Buffer.from([EVENT]);
export const EVENTS_ABOVE = Buffer.from([EVENT + 1]);

/** Writes a safe integer as eight bytes, big end first, so that keys sort as numbers. */
export function writeNumber(target: Buffer, value: number, offset: number): void {
  target.writeUInt32BE(Math.floor(value / TWO_POW_32), offset);
  target.writeUInt32BE(value % TWO_POW_32, offset + 4);
}

/** Reads what writeNumber wrote. */
export function readNumber(source: Buffer, offset: number): number {
  return source.readUInt32BE(offset) * TWO_POW_32 + source.readUInt32BE(offset + 4);
}

/** Key of the event at a position. */
export function eventKey(position: number): Buffer {
  const key = Buffer.allocUnsafe(9);
  key[0] = EVENT;
  writeNumber(key, position, 1);
  return key;
}

/** Position in an event key. */
export function positionOfKey(key: Buffer): number {
  return readNumber(key, 1);
}

/** Key of the index entry of one revision of a stream. */
export function revisionKey(stream: string, revision: number): Buffer {
  const length = Buffer.byteLength(stream);
  const key = Buffer.allocUnsafe(3 + length + 8);
  key[0] = REVISION;
  key.writeUInt16BE(length, 1);
  key.write(stream, 3, "utf8");
  writeNumber(key, revision, 3 + length);
  return key;
}

/** Key of the head of a stream. */
export function headKey(stream: string): Buffer {
  const key = Buffer.allocUnsafe(1 + Buffer.byteLength(stream));
  key[0] = HEAD;
  key.write(stream, 1, "utf8");
  return key;
}
