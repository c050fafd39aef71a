/**
 * Verification of the whole log at startup.
 *
 * All frames up to the acknowledged end must be present and intact. A frame is written only after the previous frame
 * was flushed. So only the last frame of the log can be incomplete.
 */
import { crc32 } from "node:zlib";
import { createDamageError, LogStartError } from "../model/log-errors.ts";
import type { LogEnd } from "./acknowledged-end.ts";
import type { LogFile } from "./log-file.ts";
import {
  type ChainState,
  computeChecksumSeed,
  decodeFrameHeader,
  decodeLogHeader,
  decodeStoredRecord,
  EMPTY_CHAIN,
  FORMAT_VERSION,
  FRAME_HEADER_BYTES,
  type FrameHeader,
  isSameChainState,
  LOG_HEADER_BYTES,
  RECORD_HEADER_BYTES,
} from "./log-format.ts";
import { indexRecord, LogIndex } from "./log-index.ts";

/** Smallest size of a disk sector. After a power loss, the content of whole sectors can be missing. */
const SECTOR_BYTES = 512;

const WINDOW_BYTES = 4 * 1024 * 1024;

interface ScannedLog {
  readonly index: LogIndex;
  readonly end: LogEnd;
  /** Size of the incomplete frame after `end`; 0 if all frames are complete. */
  readonly incompleteBytes: number;
}

/**
 * Verifies and indexes all frames.
 *
 * @param acknowledgedEnd all frames up to this end must be intact
 * @throws LogDamagedError if acknowledged data is missing or changed
 * @throws LogStartError if the log has an unsupported format
 */
export async function scanLog(file: LogFile, acknowledgedEnd: LogEnd): Promise<ScannedLog> {
  const { logId } = acknowledgedEnd;
  const fileSize = file.getSize();
  const seed = computeChecksumSeed(logId);
  const index = new LogIndex();
  let chainState: ChainState = EMPTY_CHAIN;
  let hasReachedEnd = false;
  let window: Buffer = Buffer.alloc(0);
  let windowStart = 0;

  verifyHeader(await read(0, LOG_HEADER_BYTES));
  let offset = LOG_HEADER_BYTES;
  markIntact();
  while (offset < fileSize) {
    const frame = await readFrame();
    if (frame === undefined) break;
    indexFrame(frame.header, frame.payload);
    offset += FRAME_HEADER_BYTES + frame.payload.length;
    markIntact();
  }
  if (!hasReachedEnd) {
    const { position } = acknowledgedEnd;
    throw createError(offset, `The log ends here, but all events up to position ${position} were acknowledged.`);
  }
  return { index, end: { ...chainState, logId, offset }, incompleteBytes: fileSize - offset };

  function verifyHeader(bytes: Buffer): void {
    const header = decodeLogHeader(bytes);
    if (header === undefined) throw createError(0, "The log's header is damaged.");
    const { version } = header;
    if (version !== FORMAT_VERSION)
      throw new LogStartError(`${file.path} has format ${version}; this program reads format ${FORMAT_VERSION}.`);
    if (header.logId !== logId) throw createError(0, "The file belongs to another log.");
  }

  /** Returns undefined if the file ends within the frame, or a power loss left zeros in it. */
  async function readFrame(): Promise<{ header: FrameHeader; payload: Buffer } | undefined> {
    const headerBytes = await read(offset, FRAME_HEADER_BYTES);
    if (headerBytes.length < FRAME_HEADER_BYTES) return undefined;
    const header = decodeFrameHeader(headerBytes);
    if (header === undefined) {
      if (isAllZeros(await read(offset, WINDOW_BYTES))) return undefined;
      throw createError(offset, "The frame's header is damaged.");
    }
    if (!isSameChainState(header.previousState, chainState))
      throw createError(offset, "The frame does not continue the previous frame.");
    const payload = await read(offset + FRAME_HEADER_BYTES, header.payloadBytes);
    if (payload.length < header.payloadBytes) return undefined;
    if (crc32(payload) === header.payloadChecksum) return { header, payload };
    const isLastFrame = offset + FRAME_HEADER_BYTES + payload.length === fileSize;
    const lastSectorBytes = ((fileSize - 1) % SECTOR_BYTES) + 1;
    if (isLastFrame && isAllZeros(payload.subarray(-lastSectorBytes))) return undefined;
    throw createError(offset, "The frame's checksum does not match its content.");
  }

  /** Returns fewer bytes if the file ends earlier. Reads large blocks, so that few disk reads are needed. */
  async function read(start: number, length: number): Promise<Buffer> {
    const end = Math.min(start + length, fileSize);
    if (start < windowStart || end > windowStart + window.length) {
      window = await file.read(start, Math.min(Math.max(length, WINDOW_BYTES), fileSize - start), index.lastPosition);
      windowStart = start;
    }
    return window.subarray(start - windowStart, end - windowStart);
  }

  function indexFrame(frame: FrameHeader, payload: Buffer): void {
    const eventCount = chainState.eventCount + frame.recordCount;
    let payloadOffset = 0;
    while (payloadOffset < payload.length) {
      const recordOffset = offset + FRAME_HEADER_BYTES + payloadOffset;
      const record = decodeStoredRecord(payload, payloadOffset, seed);
      if (record === undefined) throw createError(recordOffset, "The event's checksum does not match its content.");
      const problem = indexRecord(index, record, recordOffset);
      if (problem !== undefined) throw createError(recordOffset, problem);
      payloadOffset += RECORD_HEADER_BYTES + record.body.length;
    }
    if (index.eventCount !== eventCount)
      throw createError(offset, "The number of events in the frame differs from its header.");
    chainState = { eventCount, position: index.lastPosition, checksum: frame.checksum };
  }

  /**
   * Records that all frames up to `offset` are intact.
   *
   * @throws LogDamagedError if this is the acknowledged end, but the frames differ from the acknowledged frames
   */
  function markIntact(): void {
    index.setEndOffset(offset);
    if (offset !== acknowledgedEnd.offset) return;
    if (!isSameChainState(chainState, acknowledgedEnd))
      throw createError(offset, "The events before this offset differ from the acknowledged events.");
    hasReachedEnd = true;
  }

  function createError(problemOffset: number, problem: string): Error {
    const location = `${file.path}, offset ${problemOffset}, after position ${index.lastPosition}`;
    return createDamageError(location, problem);
  }
}

function isAllZeros(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}
