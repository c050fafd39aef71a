import { DiskFullError } from "../model/log-errors.ts";
import type { AcknowledgedEndFile, LogEnd } from "./acknowledged-end.ts";
import type { LogFile } from "./log-file.ts";
import {
  computeChecksumSeed,
  encodeFrame,
  encodeStoredRecord,
  FRAME_HEADER_BYTES,
  type StoredRecord,
} from "./log-format.ts";

/** Settings of a log that tests and benchmarks change. */
export interface LogOptions {
  /** If true, each append is flushed to disk before it is acknowledged. Only tests and benchmarks disable this. */
  readonly shouldSync: boolean;
  /** Prints a line for the operator. A line may contain internal error details that clients do not see. */
  readonly printLine: (line: string) => void;
}

export class LogWriter {
  readonly #file: LogFile;
  readonly #acknowledgedEndFile: AcknowledgedEndFile;
  readonly #options: LogOptions;
  readonly #seed: number;
  #end: LogEnd;

  constructor(file: LogFile, acknowledgedEndFile: AcknowledgedEndFile, end: LogEnd, options: LogOptions) {
    this.#file = file;
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
   * @returns the offset of each record
   * @throws DiskFullError if the disk is full; the log is then unchanged
   * @throws any other disk error; the log must then stop, because only the next start can determine what was written
   */
  async append(records: readonly StoredRecord[]): Promise<number[]> {
    const { offset, logId, eventCount, position } = this.#end;
    const encodedRecords = records.map((record) => encodeStoredRecord(record, this.#seed));
    const frame = encodeFrame(encodedRecords, this.#end);
    await this.#writeFrame(frame.bytes, offset);
    if (this.#options.shouldSync) await this.#file.flush();
    this.#end = {
      logId,
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

  async #writeFrame(bytes: Buffer, offset: number): Promise<void> {
    try {
      await this.#file.write(bytes, offset);
    } catch (error) {
      if (!isNoSpaceError(error)) throw error;
      // The next frame must not follow an incomplete frame, so the log stops if the truncation fails.
      await this.#file.truncate(offset);
      throw new DiskFullError(String(error), { cause: error });
    }
  }
}

/** Also true if the user's quota is full. */
function isNoSpaceError(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOSPC" || code === "EDQUOT";
}
