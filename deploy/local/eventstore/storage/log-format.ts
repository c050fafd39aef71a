/**
 * Byte layout of the file `log`: a header, then frames. A frame contains records that are flushed together.
 *
 *     header, 64 bytes
 *        0  "EVENTLOG"            8  format version        12  log id, 16 bytes
 *       60  checksum of bytes 0 to 59
 *     frame header, 40 bytes
 *        0  "FRAM"                4  payload bytes          8  number of records
 *       12  events before        20  position of the previous event
 *       28  checksum of the previous frame 32  checksum of the payload   36  checksum of bytes 0 to 35
 *     record, 32 bytes and its body
 *        0  checksum              4  body bytes             8  ordinal
 *       16  position             24  revision              32  body, see record.ts
 *
 * Numbers are unsigned and big-endian. Checksums are CRC-32. An ordinal is the number of an event in the log, from 0.
 * The checksum of a record covers the log id and the record. The checksum of a frame is the checksum of its header. The
 * header contains the checksums of the payload and of the previous frame. So the checksum of the last frame depends on
 * the content of all frames.
 */
import { crc32 } from "node:zlib";

export const FORMAT_VERSION = 1;

export const BLOCK_BYTES = 64;
export const LOG_HEADER_BYTES = BLOCK_BYTES;
export const FRAME_HEADER_BYTES = 40;
export const RECORD_HEADER_BYTES = 32;

/** Revision stored for a tombstone: the largest signed 64-bit integer, as in EventStoreDB. */
export const TOMBSTONE_REVISION = 9_223_372_036_854_775_807n;

const LOG_MAGIC = "EVENTLOG";
const FRAME_MAGIC = "FRAM";
const TOMBSTONE_HIGH_BITS = 0x7fff_ffff;

/** State of the log after a frame. The header of the next frame repeats this state, which chains the frames. */
export interface ChainState {
  readonly eventCount: number;
  readonly position: number;
  readonly checksum: number;
}

export const EMPTY_CHAIN: ChainState = { eventCount: 0, position: 0, checksum: 0 };

export function isSameChainState(firstState: ChainState, secondState: ChainState): boolean {
  return (
    firstState.eventCount === secondState.eventCount &&
    firstState.position === secondState.position &&
    firstState.checksum === secondState.checksum
  );
}

interface BlockFields {
  readonly version: number;
  /** 32 hexadecimal digits. */
  readonly logId: string;
}

export interface FrameHeader {
  readonly payloadBytes: number;
  readonly recordCount: number;
  readonly previousState: ChainState;
  readonly payloadChecksum: number;
  readonly checksum: number;
}

export interface StoredRecord {
  readonly ordinal: number;
  readonly position: number;
  /** Undefined for a tombstone. */
  readonly revision: number | undefined;
  readonly body: Buffer;
}

const TWO_POW_32 = 0x1_0000_0000;

/** Writes eight bytes, with the most significant byte first. */
export function writeSafeInteger(target: Buffer, value: number, offset: number): void {
  target.writeUInt32BE(Math.floor(value / TWO_POW_32), offset);
  target.writeUInt32BE(value % TWO_POW_32, offset + 4);
}

/** Reads eight bytes, with the most significant byte first. */
export function readSafeInteger(source: Buffer, offset: number): number {
  return source.readUInt32BE(offset) * TWO_POW_32 + source.readUInt32BE(offset + 4);
}

export function writeChainState(target: Buffer, state: ChainState, offset: number): void {
  writeSafeInteger(target, state.eventCount, offset);
  writeSafeInteger(target, state.position, offset + 8);
  target.writeUInt32BE(state.checksum, offset + 16);
}

export function readChainState(source: Buffer, offset: number): ChainState {
  return {
    eventCount: readSafeInteger(source, offset),
    position: readSafeInteger(source, offset + 8),
    checksum: source.readUInt32BE(offset + 16),
  };
}

export function createBlock(magic: string, logId: string): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  block.write(magic, 0, "latin1");
  block.writeUInt32BE(FORMAT_VERSION, 8);
  block.write(logId, 12, "hex");
  return block;
}

export function sealBlock(block: Buffer): Buffer {
  block.writeUInt32BE(crc32(block.subarray(0, 60)), 60);
  return block;
}

/** Returns undefined if the block is damaged or starts with other magic bytes. */
export function readBlock(block: Buffer, magic: string): BlockFields | undefined {
  if (block.length < BLOCK_BYTES || block.toString("latin1", 0, 8) !== magic) return undefined;
  if (crc32(block.subarray(0, 60)) !== block.readUInt32BE(60)) return undefined;
  return { version: block.readUInt32BE(8), logId: block.toString("hex", 12, 28) };
}

export function encodeLogHeader(logId: string): Buffer {
  return sealBlock(createBlock(LOG_MAGIC, logId));
}

/** Returns undefined if the header is damaged. */
export function decodeLogHeader(header: Buffer): BlockFields | undefined {
  return readBlock(header, LOG_MAGIC);
}

/** Returns the bytes and the checksum of the frame. */
export function encodeFrame(records: readonly Buffer[], chainState: ChainState): { bytes: Buffer; checksum: number } {
  const bytes = Buffer.concat([Buffer.alloc(FRAME_HEADER_BYTES), ...records]);
  bytes.write(FRAME_MAGIC, 0, "latin1");
  bytes.writeUInt32BE(bytes.length - FRAME_HEADER_BYTES, 4);
  bytes.writeUInt32BE(records.length, 8);
  writeChainState(bytes, chainState, 12);
  bytes.writeUInt32BE(crc32(bytes.subarray(FRAME_HEADER_BYTES)), 32);
  const checksum = crc32(bytes.subarray(0, 36));
  bytes.writeUInt32BE(checksum, 36);
  return { bytes, checksum };
}

/** Returns undefined if the header is damaged. */
export function decodeFrameHeader(header: Buffer): FrameHeader | undefined {
  const checksum = header.readUInt32BE(36);
  if (header.toString("latin1", 0, 4) !== FRAME_MAGIC) return undefined;
  if (crc32(header.subarray(0, 36)) !== checksum) return undefined;
  return {
    payloadBytes: header.readUInt32BE(4),
    recordCount: header.readUInt32BE(8),
    previousState: readChainState(header, 12),
    payloadChecksum: header.readUInt32BE(32),
    checksum,
  };
}

/**
 * Computes the initial value for the checksums of records. The value depends on the log id, so records of other logs
 * have wrong checksums.
 */
export function computeChecksumSeed(logId: string): number {
  return crc32(Buffer.from(logId, "hex"));
}

/** @param seed initial value for the record's checksum */
export function encodeStoredRecord({ ordinal, position, revision, body }: StoredRecord, seed: number): Buffer {
  const record = Buffer.allocUnsafe(RECORD_HEADER_BYTES + body.length);
  record.writeUInt32BE(body.length, 4);
  writeSafeInteger(record, ordinal, 8);
  writeSafeInteger(record, position, 16);
  if (revision === undefined) record.writeBigUInt64BE(TOMBSTONE_REVISION, 24);
  else writeSafeInteger(record, revision, 24);
  record.set(body, RECORD_HEADER_BYTES);
  record.writeUInt32BE(crc32(record.subarray(4), seed), 0);
  return record;
}

/** Returns undefined if the checksum is wrong or the buffer ends within the record. */
export function decodeStoredRecord(buffer: Buffer, offset: number, seed: number): StoredRecord | undefined {
  const bodyStart = offset + RECORD_HEADER_BYTES;
  if (bodyStart > buffer.length) return undefined;
  const bodyEnd = bodyStart + buffer.readUInt32BE(offset + 4);
  if (bodyEnd > buffer.length) return undefined;
  if (crc32(buffer.subarray(offset + 4, bodyEnd), seed) !== buffer.readUInt32BE(offset)) return undefined;
  const isTombstone = buffer.readUInt32BE(offset + 24) === TOMBSTONE_HIGH_BITS;
  return {
    ordinal: readSafeInteger(buffer, offset + 8),
    position: readSafeInteger(buffer, offset + 16),
    revision: isTombstone ? undefined : readSafeInteger(buffer, offset + 24),
    body: buffer.subarray(bodyStart, bodyEnd),
  };
}
