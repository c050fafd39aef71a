/**
 * Verification of the whole log at startup.
 *
 * All frames up to the acknowledged end must be present and intact. A frame is written only after the previous frame
 * was flushed. So only the last frame of the log can be incomplete.
 */
import { crc32 } from "node:zlib";
import { createDamageError, LogStartError } from "../model/log-errors.ts";
import type { LogEnd } from "./acknowledged-end.ts";
import { indexRecord, LogIndex } from "./log-index.ts";
import {
  type ChainState,
  computeChecksumSeed,
  decodeFrameHeader,
  decodeSegmentHeader,
  decodeStoredRecord,
  EMPTY_CHAIN,
  FORMAT_VERSION,
  FRAME_HEADER_BYTES,
  type FrameHeader,
  isSameChainState,
  RECORD_HEADER_BYTES,
  SEGMENT_HEADER_BYTES,
} from "./segment-format.ts";
import type { Segments } from "./segments.ts";

/** Minimum size of a disk sector in bytes. After a power loss, the content of whole sectors can be missing. */
const SECTOR_BYTES = 512;

interface ScannedLog {
  readonly index: LogIndex;
  /** End of the last complete frame. */
  readonly end: LogEnd;
  /** Size in bytes of the incomplete frame after `end`; 0 if all frames are complete. */
  readonly incompleteBytes: number;
}

/** Verifies the whole log and builds the index. */
export class LogScan {
  readonly #segments: Segments;
  readonly #segmentCount: number;
  readonly #acknowledgedEnd: LogEnd;
  readonly #index = new LogIndex();
  readonly #seed: number;
  #chainState: ChainState = EMPTY_CHAIN;
  #hasReachedEnd = false;

  /**
   * @param segmentCount number of segment files
   * @param acknowledgedEnd the acknowledged end; all frames up to this end must be intact
   */
  constructor(segments: Segments, segmentCount: number, acknowledgedEnd: LogEnd) {
    this.#segments = segments;
    this.#segmentCount = segmentCount;
    this.#acknowledgedEnd = acknowledgedEnd;
    this.#seed = computeChecksumSeed(acknowledgedEnd.logId);
  }

  /**
   * Opens and verifies all segments.
   *
   * @throws LogDamagedError if acknowledged data is missing or changed
   * @throws LogStartError if the log has an unsupported format
   */
  async run(): Promise<ScannedLog> {
    let offset = 0;
    let fileSize = 0;
    for (let segment = 0; segment < this.#segmentCount; segment += 1) {
      fileSize = await this.#segments.openNext();
      offset = this.#scanSegment(segment, await this.#segments.read(segment, 0, fileSize, this.#index.lastPosition));
    }
    if (!this.#hasReachedEnd) {
      const { position } = this.#acknowledgedEnd;
      const problem = `The log ends here, but all events up to position ${position} were acknowledged.`;
      throw this.#createError(this.#segmentCount - 1, offset, problem);
    }
    const end = { ...this.#chainState, logId: this.#acknowledgedEnd.logId, segment: this.#segmentCount, offset };
    return { index: this.#index, end, incompleteBytes: fileSize - offset };
  }

  /** Verifies and indexes a segment. Returns the offset at which the segment's last complete frame ends. */
  #scanSegment(segment: number, bytes: Buffer): number {
    this.#verifyHeader(segment, bytes.subarray(0, SEGMENT_HEADER_BYTES));
    this.#index.startSegment();
    let offset = SEGMENT_HEADER_BYTES;
    this.#markIntact(segment, offset);
    while (offset < bytes.length) {
      const frame = this.#readFrame(segment, bytes, offset);
      if (frame === undefined) {
        // Only the last frame of the log may be incomplete, and only if the frame was not acknowledged.
        if (this.#hasReachedEnd && segment === this.#segmentCount - 1) return offset;
        throw this.#createError(segment, offset, "The frame is incomplete.");
      }
      this.#indexFrame(segment, offset, frame.header, frame.payload);
      offset += FRAME_HEADER_BYTES + frame.payload.length;
      this.#markIntact(segment, offset);
    }
    return offset;
  }

  #verifyHeader(segment: number, bytes: Buffer): void {
    const header = decodeSegmentHeader(bytes);
    if (header === undefined) throw this.#createError(segment, 0, "The segment's header is damaged.");
    const { version, logId, previousState } = header;
    if (version !== FORMAT_VERSION) {
      const file = this.#segments.getPath(segment);
      throw new LogStartError(`${file} has format ${version}; this program reads format ${FORMAT_VERSION}.`);
    }
    if (logId !== this.#acknowledgedEnd.logId) throw this.#createError(segment, 0, "The file belongs to another log.");
    if (header.segment !== segment + 1 || !isSameChainState(previousState, this.#chainState))
      throw this.#createError(segment, 0, "The segment does not continue the previous segment.");
  }

  /**
   * Reads the frame at an offset. Returns undefined if the frame is incomplete: the file ends within the frame, or a
   * power loss left zeros in the frame.
   */
  #readFrame(segment: number, bytes: Buffer, offset: number): { header: FrameHeader; payload: Buffer } | undefined {
    const rest = bytes.subarray(offset);
    if (rest.length < FRAME_HEADER_BYTES) return undefined;
    const header = decodeFrameHeader(rest);
    if (header === undefined) {
      if (isAllZeros(rest)) return undefined;
      throw this.#createError(segment, offset, "The frame's header is damaged.");
    }
    if (!isSameChainState(header.previousState, this.#chainState))
      throw this.#createError(segment, offset, "The frame does not continue the previous frame.");
    const payload = rest.subarray(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + header.payloadBytes);
    if (payload.length < header.payloadBytes) return undefined;
    if (crc32(payload) === header.payloadChecksum) return { header, payload };
    const isLastFrame = rest.length === FRAME_HEADER_BYTES + payload.length;
    const lastSectorBytes = ((bytes.length - 1) % SECTOR_BYTES) + 1;
    if (isLastFrame && isAllZeros(payload.subarray(-lastSectorBytes))) return undefined;
    throw this.#createError(segment, offset, "The frame's checksum does not match its content.");
  }

  #indexFrame(segment: number, offset: number, frame: FrameHeader, payload: Buffer): void {
    const eventCount = this.#chainState.eventCount + frame.recordCount;
    let payloadOffset = 0;
    while (payloadOffset < payload.length) {
      const recordOffset = offset + FRAME_HEADER_BYTES + payloadOffset;
      const record = decodeStoredRecord(payload, payloadOffset, this.#seed);
      if (record === undefined)
        throw this.#createError(segment, recordOffset, "The event's checksum does not match its content.");
      const problem = indexRecord(this.#index, record, recordOffset);
      if (problem !== undefined) throw this.#createError(segment, recordOffset, problem);
      payloadOffset += RECORD_HEADER_BYTES + record.body.length;
    }
    if (this.#index.eventCount !== eventCount)
      throw this.#createError(segment, offset, "The number of events in the frame differs from its header.");
    this.#chainState = { eventCount, position: this.#index.lastPosition, checksum: frame.checksum };
  }

  /**
   * Marks a segment as intact up to an offset.
   * @throws LogDamagedError if the offset is the acknowledged end, but the frames differ from the acknowledged frames
   */
  #markIntact(segment: number, offset: number): void {
    this.#index.setSegmentEnd(offset);
    const end = this.#acknowledgedEnd;
    if (segment + 1 !== end.segment || offset !== end.offset) return;
    if (!isSameChainState(this.#chainState, end))
      throw this.#createError(segment, offset, "The events before this offset differ from the acknowledged events.");
    this.#hasReachedEnd = true;
  }

  #createError(segment: number, offset: number, problem: string): Error {
    const path = this.#segments.getPath(segment);
    return createDamageError(`${path}, offset ${offset}, after position ${this.#index.lastPosition}`, problem);
  }
}

function isAllZeros(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}
