/**
 * Verification of the whole log at startup.
 *
 * All frames up to the acknowledged end must be present and intact. A frame is written only after the previous frame
 * was flushed. So only the last frame of the log can be incomplete.
 */
import { crc32 } from "node:zlib";
import { type LogLimits, MAX_FRAME_BYTES } from "../model/limits.ts";
import { createDamageError, LogStartError } from "../model/log-errors.ts";
import type { LogOptions } from "../model/log-options.ts";
import type { LogEnd } from "./acknowledged-end.ts";
import { indexRecord } from "./index-record.ts";
import { LogIndex } from "./log-index.ts";
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
import { SegmentWindow } from "./segment-window.ts";
import type { Segments } from "./segments.ts";

/** Minimum size of a disk sector in bytes. After a power loss, the content of whole sectors can be missing. */
const SECTOR_BYTES = 512;

const PROGRESS_INTERVAL_MS = 2_000;

export interface ScannedLog {
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
  readonly #options: LogOptions;
  readonly #window: SegmentWindow;
  readonly #index = new LogIndex();
  readonly #seed: number;
  #chainState: ChainState = EMPTY_CHAIN;
  #hasReachedEnd = false;
  #nextReport = performance.now() + PROGRESS_INTERVAL_MS;

  /**
   * @param segmentCount number of segment files
   * @param acknowledgedEnd the acknowledged end; all frames up to this end must be intact
   */
  constructor(segments: Segments, segmentCount: number, acknowledgedEnd: LogEnd, options: LogOptions) {
    this.#segments = segments;
    this.#segmentCount = segmentCount;
    this.#acknowledgedEnd = acknowledgedEnd;
    this.#seed = computeChecksumSeed(acknowledgedEnd.logId);
    this.#options = options;
    this.#window = new SegmentWindow(segments);
  }

  /**
   * Opens and verifies all segments. Prints a progress line every two seconds.
   *
   * @throws LogDamagedError if acknowledged data is missing or changed
   * @throws LogStartError if the log exceeds a limit or has an unsupported format
   */
  async run(): Promise<ScannedLog> {
    let offset = 0;
    let fileSize = 0;
    for (let segment = 0; segment < this.#segmentCount; segment += 1) {
      fileSize = await this.#segments.openNext();
      offset = await this.#scanSegment(segment, fileSize);
    }
    if (!this.#hasReachedEnd) {
      const { position } = this.#acknowledgedEnd;
      const problem = `The log ends here, but all events up to position ${position} were acknowledged.`;
      throw this.#createError(this.#segmentCount - 1, offset, problem);
    }
    const end = {
      ...this.#chainState,
      logId: this.#acknowledgedEnd.logId,
      segment: this.#segmentCount,
      offset,
    };
    return { index: this.#index, end, incompleteBytes: fileSize - offset };
  }

  /** Verifies and indexes a segment. Returns the offset at which the segment's last complete frame ends. */
  async #scanSegment(segment: number, fileSize: number): Promise<number> {
    await this.#verifyHeader(segment);
    this.#index.startSegment();
    let offset = SEGMENT_HEADER_BYTES;
    this.#markIntact(segment, offset);
    while (offset < fileSize) {
      this.#reportProgress(segment, offset, fileSize);
      const frame = await this.#readFrame(segment, offset, fileSize);
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

  /**
   * Reads the frame at an offset. Returns undefined if the frame is incomplete: the file ends within the frame, or a
   * power loss left zeros in the frame.
   */
  async #readFrame(
    segment: number,
    offset: number,
    fileSize: number,
  ): Promise<{ header: FrameHeader; payload: Buffer } | undefined> {
    const bytes = await this.#readBytes(segment, offset, FRAME_HEADER_BYTES);
    const header = bytes.length < FRAME_HEADER_BYTES ? undefined : decodeFrameHeader(bytes);
    if (header === undefined) {
      if (await this.#isIncompleteHeader(segment, offset, fileSize)) return undefined;
      throw this.#createError(segment, offset, "The frame's header is damaged.");
    }
    if (!isSameChainState(header.previousState, this.#chainState)) {
      throw this.#createError(segment, offset, "The frame does not continue the previous frame.");
    }
    const payload = await this.#readBytes(segment, offset + FRAME_HEADER_BYTES, header.payloadBytes);
    return isIncompletePayload(payload, header, offset, fileSize) ? undefined : { header, payload };
  }

  async #verifyHeader(segment: number): Promise<void> {
    const header = decodeSegmentHeader(await this.#readBytes(segment, 0, SEGMENT_HEADER_BYTES));
    if (header === undefined) throw this.#createError(segment, 0, "The segment's header is damaged.");
    const { version, logId, previousState } = header;
    if (version !== FORMAT_VERSION) {
      const file = this.#segments.getPath(segment);
      throw new LogStartError(`${file} has format ${version}; this program reads format ${FORMAT_VERSION}.`);
    }
    if (logId !== this.#acknowledgedEnd.logId) throw this.#createError(segment, 0, "The file belongs to another log.");
    if (header.segment !== segment + 1 || !isSameChainState(previousState, this.#chainState)) {
      throw this.#createError(segment, 0, "The segment does not continue the previous segment.");
    }
  }

  /**
   * Returns true if the file ends within a frame header, or contains only zeros after the offset. A power loss can leave
   * zeros.
   */
  async #isIncompleteHeader(segment: number, offset: number, fileSize: number): Promise<boolean> {
    if (fileSize - offset < FRAME_HEADER_BYTES) return true;
    if (fileSize - offset > MAX_FRAME_BYTES) return false;
    return isAllZeros(await this.#readBytes(segment, offset, fileSize - offset));
  }

  #indexFrame(segment: number, offset: number, frame: FrameHeader, payload: Buffer): void {
    if (crc32(payload) !== frame.payloadChecksum) {
      throw this.#createError(segment, offset, "The frame's checksum does not match its content.");
    }
    const end = this.#chainState.eventCount + frame.recordCount;
    let payloadOffset = 0;
    while (payloadOffset < payload.length) {
      const recordOffset = offset + FRAME_HEADER_BYTES + payloadOffset;
      const record = decodeStoredRecord(payload, payloadOffset, this.#seed);
      if (record === undefined) {
        throw this.#createError(segment, recordOffset, "The event's checksum does not match its content.");
      }
      const problem = indexRecord(this.#index, record, recordOffset);
      if (problem !== undefined) throw this.#createError(segment, recordOffset, problem);
      payloadOffset += RECORD_HEADER_BYTES + record.body.length;
    }
    if (this.#index.eventCount !== end)
      throw this.#createError(segment, offset, "The number of events in the frame differs from its header.");
    this.#chainState = { eventCount: end, position: this.#index.lastPosition, checksum: frame.checksum };
    requireWithinLimits(this.#index, this.#options.limits);
  }

  /**
   * Marks a segment as intact up to an offset.
   * @throws LogDamagedError if the offset is the acknowledged end, but the frames differ from the acknowledged frames
   */
  #markIntact(segment: number, offset: number): void {
    this.#index.setSegmentEnd(offset);
    const end = this.#acknowledgedEnd;
    if (segment + 1 !== end.segment || offset !== end.offset) return;
    if (!isSameChainState(this.#chainState, end)) {
      throw this.#createError(segment, offset, "The events before this offset differ from the acknowledged events.");
    }
    this.#hasReachedEnd = true;
  }

  async #readBytes(segment: number, offset: number, length: number): Promise<Buffer> {
    try {
      return await this.#window.read(segment, offset, length);
    } catch (error) {
      throw this.#createError(segment, offset, `The file cannot be read: ${String(error)}.`);
    }
  }

  #reportProgress(segment: number, offset: number, fileSize: number): void {
    if (performance.now() < this.#nextReport) return;
    this.#nextReport = performance.now() + PROGRESS_INTERVAL_MS;
    const percent = Math.floor((100 * offset) / fileSize);
    this.#options.printLine(
      `Verifying the log: segment ${segment + 1} of ${this.#segmentCount}, ${percent} %, ${this.#index.eventCount} events so far.`,
    );
  }

  #createError(segment: number, offset: number, problem: string): Error {
    const path = this.#segments.getPath(segment);
    return createDamageError(`${path}, offset ${offset}, after position ${this.#index.lastPosition}`, problem);
  }
}

/** @throws LogStartError if the log contains more events or streams than its limits allow */
export function requireWithinLimits({ eventCount, streams }: LogIndex, limits: LogLimits): void {
  if (eventCount <= limits.maxEvents && streams.size <= limits.maxStreams) return;
  throw new LogStartError(
    `The log contains ${eventCount} events of ${streams.size} streams. The limits are ${limits.maxEvents} events and ${limits.maxStreams} streams.`,
  );
}

/**
 * Returns true if the file ends within a frame, or if the frame's last sector contains only zeros. A power loss can
 * leave zeros.
 */
function isIncompletePayload(payload: Buffer, header: FrameHeader, offset: number, fileSize: number): boolean {
  const end = offset + FRAME_HEADER_BYTES + header.payloadBytes;
  if (payload.length < header.payloadBytes) return true;
  if (end !== fileSize || crc32(payload) === header.payloadChecksum) return false;
  const lastSector = Math.floor((end - 1) / SECTOR_BYTES) * SECTOR_BYTES;
  return isAllZeros(payload.subarray(Math.max(0, payload.length - (end - lastSector))));
}

function isAllZeros(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}
