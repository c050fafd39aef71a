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

/** Minimum size. After a power loss, the content of whole sectors can be missing. */
const SECTOR_BYTES = 512;

const WINDOW_BYTES = 4 * 1024 * 1024;

interface ScannedLog {
  readonly index: LogIndex;
  readonly end: LogEnd;
  /** Size of the incomplete frame after `end`; 0 if all frames are complete. */
  readonly incompleteBytes: number;
}

export class LogScan {
  readonly #file: LogFile;
  readonly #fileSize: number;
  readonly #acknowledgedEnd: LogEnd;
  readonly #index = new LogIndex();
  readonly #seed: number;
  #chainState: ChainState = EMPTY_CHAIN;
  #hasReachedEnd = false;
  #window: Buffer = Buffer.alloc(0);
  #windowStart = 0;

  /** @param acknowledgedEnd all frames up to this end must be intact */
  constructor(file: LogFile, acknowledgedEnd: LogEnd) {
    this.#file = file;
    this.#fileSize = file.getSize();
    this.#acknowledgedEnd = acknowledgedEnd;
    this.#seed = computeChecksumSeed(acknowledgedEnd.logId);
  }

  /**
   * Verifies and indexes all frames.
   *
   * @throws LogDamagedError if acknowledged data is missing or changed
   * @throws LogStartError if the log has an unsupported format
   */
  async run(): Promise<ScannedLog> {
    this.#verifyHeader(await this.#read(0, LOG_HEADER_BYTES));
    let offset = LOG_HEADER_BYTES;
    this.#markIntact(offset);
    while (offset < this.#fileSize) {
      const frame = await this.#readFrame(offset);
      if (frame === undefined) break;
      this.#indexFrame(offset, frame.header, frame.payload);
      offset += FRAME_HEADER_BYTES + frame.payload.length;
      this.#markIntact(offset);
    }
    const { logId, position } = this.#acknowledgedEnd;
    if (!this.#hasReachedEnd) {
      const problem = `The log ends here, but all events up to position ${position} were acknowledged.`;
      throw this.#createError(offset, problem);
    }
    return {
      index: this.#index,
      end: { ...this.#chainState, logId, offset },
      incompleteBytes: this.#fileSize - offset,
    };
  }

  #verifyHeader(bytes: Buffer): void {
    const header = decodeLogHeader(bytes);
    if (header === undefined) throw this.#createError(0, "The log's header is damaged.");
    const { version, logId } = header;
    if (version !== FORMAT_VERSION)
      throw new LogStartError(`${this.#file.path} has format ${version}; this program reads format ${FORMAT_VERSION}.`);
    if (logId !== this.#acknowledgedEnd.logId) throw this.#createError(0, "The file belongs to another log.");
  }

  /** Returns undefined if the file ends within the frame, or a power loss left zeros in it. */
  async #readFrame(offset: number): Promise<{ header: FrameHeader; payload: Buffer } | undefined> {
    const headerBytes = await this.#read(offset, FRAME_HEADER_BYTES);
    if (headerBytes.length < FRAME_HEADER_BYTES) return undefined;
    const header = decodeFrameHeader(headerBytes);
    if (header === undefined) {
      if (isAllZeros(await this.#read(offset, WINDOW_BYTES))) return undefined;
      throw this.#createError(offset, "The frame's header is damaged.");
    }
    if (!isSameChainState(header.previousState, this.#chainState))
      throw this.#createError(offset, "The frame does not continue the previous frame.");
    const payload = await this.#read(offset + FRAME_HEADER_BYTES, header.payloadBytes);
    if (payload.length < header.payloadBytes) return undefined;
    if (crc32(payload) === header.payloadChecksum) return { header, payload };
    const isLastFrame = offset + FRAME_HEADER_BYTES + payload.length === this.#fileSize;
    const lastSectorBytes = ((this.#fileSize - 1) % SECTOR_BYTES) + 1;
    if (isLastFrame && isAllZeros(payload.subarray(-lastSectorBytes))) return undefined;
    throw this.#createError(offset, "The frame's checksum does not match its content.");
  }

  /** Returns fewer bytes if the file ends earlier. Reads large blocks, so that few disk reads are needed. */
  async #read(offset: number, length: number): Promise<Buffer> {
    const end = Math.min(offset + length, this.#fileSize);
    if (offset < this.#windowStart || end > this.#windowStart + this.#window.length) {
      const windowBytes = Math.min(Math.max(length, WINDOW_BYTES), this.#fileSize - offset);
      this.#window = await this.#file.read(offset, windowBytes, this.#index.lastPosition);
      this.#windowStart = offset;
    }
    return this.#window.subarray(offset - this.#windowStart, end - this.#windowStart);
  }

  #indexFrame(offset: number, frame: FrameHeader, payload: Buffer): void {
    const eventCount = this.#chainState.eventCount + frame.recordCount;
    let payloadOffset = 0;
    while (payloadOffset < payload.length) {
      const recordOffset = offset + FRAME_HEADER_BYTES + payloadOffset;
      const record = decodeStoredRecord(payload, payloadOffset, this.#seed);
      if (record === undefined)
        throw this.#createError(recordOffset, "The event's checksum does not match its content.");
      const problem = indexRecord(this.#index, record, recordOffset);
      if (problem !== undefined) throw this.#createError(recordOffset, problem);
      payloadOffset += RECORD_HEADER_BYTES + record.body.length;
    }
    if (this.#index.eventCount !== eventCount)
      throw this.#createError(offset, "The number of events in the frame differs from its header.");
    this.#chainState = { eventCount, position: this.#index.lastPosition, checksum: frame.checksum };
  }

  /**
   * @throws LogDamagedError if the offset is the acknowledged end, but the frames differ from the acknowledged frames
   */
  #markIntact(offset: number): void {
    this.#index.setEndOffset(offset);
    const end = this.#acknowledgedEnd;
    if (offset !== end.offset) return;
    if (!isSameChainState(this.#chainState, end))
      throw this.#createError(offset, "The events before this offset differ from the acknowledged events.");
    this.#hasReachedEnd = true;
  }

  #createError(offset: number, problem: string): Error {
    const location = `${this.#file.path}, offset ${offset}, after position ${this.#index.lastPosition}`;
    return createDamageError(location, problem);
  }
}

function isAllZeros(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}
