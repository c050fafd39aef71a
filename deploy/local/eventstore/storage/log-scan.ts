/**
 * Verification of the whole log at its start.
 *
 * All frames up to the acknowledged end must be present and intact. A frame is written only after the previous frame was
 * flushed, so only the first frame after that end can be incomplete. That frame was never acknowledged.
 */
import { crc32 } from "node:zlib";
import { type LogBounds, MAX_FRAME_BYTES } from "../model/limits.ts";
import { damageAt, LogStartError } from "../model/log-errors.ts";
import type { LogEnd } from "./acknowledged-end.ts";
import { indexRecord } from "./index-record.ts";
import { LogIndex } from "./log-index.ts";
import {
  type ChainEnd,
  checksumSeed,
  decodeFrameHeader,
  decodeSegmentHeader,
  decodeStoredRecord,
  FORMAT,
  FRAME_HEADER_BYTES,
  type FrameHeader,
  isSameChainEnd,
  LOG_START,
  RECORD_HEADER_BYTES,
  SEGMENT_HEADER_BYTES,
} from "./segment-format.ts";
import { SegmentWindow } from "./segment-window.ts";
import type { Segments } from "./segments.ts";

/** Minimum size of a disk sector. A power loss leaves whole sectors unwritten. */
const SECTOR_BYTES = 512;

const PROGRESS_INTERVAL_MS = 2_000;

export interface ScanOptions {
  readonly bounds: LogBounds;
  /** Receives a progress line every two seconds. */
  readonly log: (line: string) => void;
}

export interface ScannedLog {
  readonly index: LogIndex;
  /** End of the last complete frame. */
  readonly end: LogEnd;
  /** Size of the incomplete frame after the end, in bytes; 0 if all frames are complete. */
  readonly incompleteBytes: number;
}

/**
 * Opens and verifies all segments, and builds the index.
 *
 * @param count number of segment files
 * @param acknowledged end up to which the log must be intact
 * @throws LogDamagedError if acknowledged data is missing or changed
 * @throws LogStartError if the log exceeds a limit or has an unsupported format
 */
export function scanLog(
  segments: Segments,
  count: number,
  acknowledged: LogEnd,
  options: ScanOptions,
): Promise<ScannedLog> {
  return new LogScan(segments, count, acknowledged, options).run();
}

class LogScan {
  readonly #segments: Segments;
  readonly #count: number;
  readonly #acknowledged: LogEnd;
  readonly #bounds: LogBounds;
  readonly #log: (line: string) => void;
  readonly #window: SegmentWindow;
  readonly #index = new LogIndex();
  readonly #seed: number;
  #chain: ChainEnd = LOG_START;
  #reachedAcknowledged = false;
  #reportAt = performance.now() + PROGRESS_INTERVAL_MS;

  constructor(segments: Segments, count: number, acknowledged: LogEnd, options: ScanOptions) {
    this.#segments = segments;
    this.#count = count;
    this.#acknowledged = acknowledged;
    this.#seed = checksumSeed(acknowledged.logId);
    this.#bounds = options.bounds;
    this.#log = options.log;
    this.#window = new SegmentWindow(segments);
  }

  async run(): Promise<ScannedLog> {
    let offset = 0;
    let size = 0;
    for (let segment = 0; segment < this.#count; segment += 1) {
      size = await this.#segments.openNext();
      offset = await this.#scanSegment(segment, size);
    }
    if (!this.#reachedAcknowledged) {
      const { position } = this.#acknowledged;
      const what = `The log ends here, but all events up to position ${position} were acknowledged.`;
      throw this.#damage(this.#count - 1, offset, what);
    }
    const end = { ...this.#chain, logId: this.#acknowledged.logId, segment: this.#count, offset };
    return { index: this.#index, end, incompleteBytes: size - offset };
  }

  /** Verifies and indexes a segment. Returns the offset at which its last complete frame ends. */
  async #scanSegment(segment: number, size: number): Promise<number> {
    await this.#checkHeader(segment);
    this.#index.startSegment();
    let offset = SEGMENT_HEADER_BYTES;
    this.#completeFrame(segment, offset);
    while (offset < size) {
      this.#report(segment, offset, size);
      const frame = await this.#frameAt(segment, offset, size);
      if (frame === undefined) {
        // Only the last frame of the log may be incomplete, and only if it was not acknowledged.
        if (this.#reachedAcknowledged && segment === this.#count - 1) return offset;
        throw this.#damage(segment, offset, "The frame is incomplete.");
      }
      this.#takeFrame(segment, offset, frame.header, frame.payload);
      offset += FRAME_HEADER_BYTES + frame.payload.length;
      this.#completeFrame(segment, offset);
    }
    return offset;
  }

  /** Reads the frame at an offset. Returns undefined if the file ends within the frame or a power loss left zeros. */
  async #frameAt(
    segment: number,
    offset: number,
    size: number,
  ): Promise<{ header: FrameHeader; payload: Buffer } | undefined> {
    const bytes = await this.#bytes(segment, offset, FRAME_HEADER_BYTES);
    const header = bytes.length < FRAME_HEADER_BYTES ? undefined : decodeFrameHeader(bytes);
    if (header === undefined) {
      if (await this.#isIncompleteHeader(segment, offset, size)) return undefined;
      throw this.#damage(segment, offset, "The frame's header is damaged.");
    }
    if (!isSameChainEnd(header.before, this.#chain)) {
      throw this.#damage(segment, offset, "The frame does not continue the previous frame.");
    }
    const payload = await this.#bytes(segment, offset + FRAME_HEADER_BYTES, header.payloadBytes);
    return isIncompletePayload(payload, header, offset, size) ? undefined : { header, payload };
  }

  async #checkHeader(segment: number): Promise<void> {
    const header = decodeSegmentHeader(await this.#bytes(segment, 0, SEGMENT_HEADER_BYTES));
    if (header === undefined) throw this.#damage(segment, 0, "The segment's header is damaged.");
    const { version, logId, before } = header;
    if (version !== FORMAT) {
      const file = this.#segments.file(segment);
      throw new LogStartError(`${file} has format ${version}; this program reads format ${FORMAT}.`);
    }
    if (logId !== this.#acknowledged.logId)
      throw this.#damage(segment, 0, "The file belongs to another log.");
    if (header.segment !== segment + 1 || !isSameChainEnd(before, this.#chain)) {
      throw this.#damage(segment, 0, "The segment does not continue the previous segment.");
    }
  }

  /** Returns true if the file ends within a frame header, or contains only zeros from there on, as after a power loss. */
  async #isIncompleteHeader(segment: number, offset: number, size: number): Promise<boolean> {
    if (size - offset < FRAME_HEADER_BYTES) return true;
    if (size - offset > MAX_FRAME_BYTES) return false;
    return isZero(await this.#bytes(segment, offset, size - offset));
  }

  #takeFrame(segment: number, offset: number, frame: FrameHeader, payload: Buffer): void {
    if (crc32(payload) !== frame.payloadChecksum) {
      throw this.#damage(segment, offset, "The frame's checksum does not match its content.");
    }
    const end = this.#chain.events + frame.records;
    let at = 0;
    while (at < payload.length) {
      const recordOffset = offset + FRAME_HEADER_BYTES + at;
      const record = decodeStoredRecord(payload, at, this.#seed);
      if (record === undefined) {
        throw this.#damage(segment, recordOffset, "The event's checksum does not match its content.");
      }
      const problem = indexRecord(this.#index, record, recordOffset);
      if (problem !== undefined) throw this.#damage(segment, recordOffset, problem);
      at += RECORD_HEADER_BYTES + record.body.length;
    }
    if (this.#index.events !== end)
      throw this.#damage(segment, offset, "The frame contains fewer events than its header says.");
    this.#chain = { events: end, position: this.#index.position, checksum: frame.checksum };
    requireWithinBounds(this.#index, this.#bounds);
  }

  /**
   * Records that a segment is intact up to an offset.
   * @throws LogDamagedError if the offset is the acknowledged end but the frames before it differ
   */
  #completeFrame(segment: number, offset: number): void {
    this.#index.setSegmentEnd(offset);
    const end = this.#acknowledged;
    if (segment + 1 !== end.segment || offset !== end.offset) return;
    if (!isSameChainEnd(this.#chain, end)) {
      throw this.#damage(segment, offset, "The log differs from the acknowledged end.");
    }
    this.#reachedAcknowledged = true;
  }

  async #bytes(segment: number, offset: number, length: number): Promise<Buffer> {
    try {
      return await this.#window.bytes(segment, offset, length);
    } catch (error) {
      throw this.#damage(segment, offset, `The file cannot be read: ${String(error)}.`);
    }
  }

  #report(segment: number, offset: number, size: number): void {
    if (performance.now() < this.#reportAt) return;
    this.#reportAt = performance.now() + PROGRESS_INTERVAL_MS;
    const percent = Math.floor((100 * offset) / size);
    this.#log(
      `Verifying the log: segment ${segment + 1} of ${this.#count}, ${percent} %, ${this.#index.events} events so far.`,
    );
  }

  #damage(segment: number, offset: number, what: string): Error {
    return damageAt(this.#segments.file(segment), offset, `after position ${this.#index.position}`, what);
  }
}

/** @throws LogStartError if the log contains more events or streams than its limits allow */
export function requireWithinBounds({ events, streams }: LogIndex, bounds: LogBounds): void {
  if (events <= bounds.events && streams <= bounds.streams) return;
  throw new LogStartError(
    `The log contains ${events} events of ${streams} streams. The limits are ${bounds.events} events and ${bounds.streams} streams.`,
  );
}

/** Returns true if the file ends within a frame, or the frame's last sector contains zeros, as after a power loss. */
function isIncompletePayload(payload: Buffer, frame: FrameHeader, offset: number, size: number): boolean {
  const end = offset + FRAME_HEADER_BYTES + frame.payloadBytes;
  if (payload.length < frame.payloadBytes) return true;
  if (end !== size || crc32(payload) === frame.payloadChecksum) return false;
  const lastSector = Math.floor((end - 1) / SECTOR_BYTES) * SECTOR_BYTES;
  return isZero(payload.subarray(Math.max(0, payload.length - (end - lastSector))));
}

function isZero(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}
