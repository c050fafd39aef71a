/** Appends frames to the last segment and records the acknowledged end. */
import type { LogOptions } from "../model/limits.ts";
import { DiskFullError } from "../model/log-errors.ts";
import type { AcknowledgedEndFile, LogEnd } from "./acknowledged-end.ts";
import {
  computeChecksumSeed,
  encodeFrame,
  encodeSegmentHeader,
  encodeStoredRecord,
  FRAME_HEADER_BYTES,
  SEGMENT_HEADER_BYTES,
  type StoredRecord,
} from "./segment-format.ts";
import type { Segments } from "./segments.ts";

export class LogWriter {
  readonly #segments: Segments;
  readonly #acknowledgedEndFile: AcknowledgedEndFile;
  readonly #options: LogOptions;
  readonly #seed: number;
  #end: LogEnd;

  /** @param end current end of the log; its last segment must be open */
  constructor(segments: Segments, acknowledgedEndFile: AcknowledgedEndFile, end: LogEnd, options: LogOptions) {
    this.#segments = segments;
    this.#acknowledgedEndFile = acknowledgedEndFile;
    this.#end = end;
    this.#seed = computeChecksumSeed(end.logId);
    this.#options = options;
  }

  get end(): LogEnd {
    return this.#end;
  }

  /**
   * Writes records as one frame, flushes the frame and records the new end of the log. Calls must not overlap.
   *
   * @returns the offset of each record in the last segment
   * @throws DiskFullError if the disk is full; the log is then unchanged
   * @throws any other disk error; the log must then stop, because only the next start can determine what was written
   */
  async append(records: readonly StoredRecord[]): Promise<number[]> {
    if (this.#end.offset >= this.#options.segmentBytes) await this.#startSegment();
    const { offset, segment, logId, eventCount, position } = this.#end;
    const encodedRecords = records.map((record) => encodeStoredRecord(record, this.#seed));
    const frame = encodeFrame(encodedRecords, this.#end);
    await this.#writeFrame(frame.bytes, offset);
    if (this.#options.shouldSync) await this.#segments.flush();
    this.#end = {
      logId,
      segment,
      offset: offset + frame.bytes.length,
      eventCount: eventCount + records.length,
      position: records.at(-1)?.position ?? position,
      checksum: frame.checksum,
    };
    this.#acknowledgedEndFile.write(this.#end);
    let nextOffset = offset + FRAME_HEADER_BYTES;
    return encodedRecords.map((record) => {
      nextOffset += record.length;
      return nextOffset - record.length;
    });
  }

  async #startSegment(): Promise<void> {
    const segment = this.#end.segment + 1;
    try {
      await this.#segments.createNext(encodeSegmentHeader(this.#end.logId, segment, this.#end));
    } catch (error) {
      throw isNoSpaceError(error) ? new DiskFullError(String(error), { cause: error }) : error;
    }
    this.#end = { ...this.#end, segment, offset: SEGMENT_HEADER_BYTES };
  }

  async #writeFrame(bytes: Buffer, offset: number): Promise<void> {
    try {
      await this.#segments.write(bytes, offset);
    } catch (error) {
      if (!isNoSpaceError(error)) throw error;
      // The next frame must not follow an incomplete frame, so the log stops if the truncation fails.
      await this.#segments.truncate(offset);
      throw new DiskFullError(String(error), { cause: error });
    }
  }
}

/** Returns true if an operation failed because the disk or the user's quota is full. */
function isNoSpaceError(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOSPC" || code === "EDQUOT";
}
