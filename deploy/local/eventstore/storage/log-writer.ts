/** Appends frames to the last segment and records the acknowledged end. */
import type { AcknowledgedEnd, LogEnd } from "./acknowledged-end.ts";
import { DiskFullError, isNoSpace } from "./disk-full.ts";
import {
  checksumSeed,
  encodeFrame,
  encodeSegmentHeader,
  encodeStoredRecord,
  FRAME_HEADER_BYTES,
  SEGMENT_HEADER_BYTES,
  type StoredRecord,
} from "./segment-format.ts";
import type { Segments } from "./segments.ts";

export interface LogWriterOptions {
  /** A segment that has this length is followed by a new one. Bytes. */
  readonly segmentBytes: number;
  /** If true, a frame is flushed before it is acknowledged. Only benchmarks turn this off. */
  readonly sync: boolean;
}

export class LogWriter {
  readonly #segments: Segments;
  readonly #acknowledged: AcknowledgedEnd;
  readonly #options: LogWriterOptions;
  readonly #seed: number;
  #end: LogEnd;

  /** `end` is the end of the last segment, which must be open. */
  constructor(segments: Segments, acknowledged: AcknowledgedEnd, end: LogEnd, options: LogWriterOptions) {
    this.#segments = segments;
    this.#acknowledged = acknowledged;
    this.#end = end;
    this.#seed = checksumSeed(end.logId);
    this.#options = options;
  }

  get end(): LogEnd {
    return this.#end;
  }

  /** Number of segments after the next frame is written. */
  get nextSegment(): number {
    return this.#end.segment + (this.#isSegmentFull ? 1 : 0);
  }

  get #isSegmentFull(): boolean {
    return this.#end.offset >= this.#options.segmentBytes;
  }

  /**
   * Writes records as one frame, flushes it and records the new end. One call at a time.
   *
   * @returns the offset of each record in the last segment
   * @throws DiskFullError if there is no space; the log is unchanged
   * @throws any other error of the disk; which bytes reached the disk is then unknown until the next start
   */
  async append(records: readonly StoredRecord[]): Promise<number[]> {
    if (this.#isSegmentFull) await this.#startSegment();
    const { offset, segment, logId, events, position } = this.#end;
    const encoded = records.map((record) => encodeStoredRecord(record, this.#seed));
    const frame = encodeFrame(encoded, this.#end);
    await this.#write(frame.bytes, offset);
    if (this.#options.sync) await this.#segments.flush();
    await this.#acknowledge({
      logId,
      segment,
      offset: offset + frame.bytes.length,
      events: events + records.length,
      position: records.at(-1)?.position ?? position,
      checksum: frame.checksum,
    });
    let next = offset + FRAME_HEADER_BYTES;
    return encoded.map((record) => {
      next += record.length;
      return next - record.length;
    });
  }

  async #startSegment(): Promise<void> {
    const segment = this.#end.segment + 1;
    try {
      await this.#segments.createNext(encodeSegmentHeader(this.#end.logId, segment, this.#end));
    } catch (error) {
      throw isNoSpace(error) ? new DiskFullError(String(error), { cause: error }) : error;
    }
    this.#end = { ...this.#end, segment, offset: SEGMENT_HEADER_BYTES };
  }

  async #write(bytes: Buffer, offset: number): Promise<void> {
    try {
      await this.#segments.write(bytes, offset);
    } catch (error) {
      if (!isNoSpace(error)) throw error;
      // If this fails too, its error ends the log: an incomplete frame must not stay before the next one.
      await this.#segments.truncate(offset);
      throw new DiskFullError(String(error), { cause: error });
    }
  }

  /** Records the new end. A copy-on-write file system needs space for that, too. */
  async #acknowledge(end: LogEnd): Promise<void> {
    try {
      this.#acknowledged.write(end);
    } catch (error) {
      if (!isNoSpace(error)) throw error;
      // Takes the frame back, which nobody has seen. Flushed, so that a power loss does not bring it back.
      await this.#segments.truncate(this.#end.offset);
      await this.#segments.flush();
      throw new DiskFullError(String(error), { cause: error });
    }
    this.#end = end;
  }
}
