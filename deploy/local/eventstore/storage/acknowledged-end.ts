/**
 * The file `acknowledged`. It records the acknowledged end, which is the end of the last acknowledged frame.
 *
 * After each frame, the log flushes the segment, writes this file and then acknowledges the appends. At startup, all
 * data up to the acknowledged end must be intact. Only data after the acknowledged end may be incomplete.
 *
 * The file contains two copies of one entry, 4 KiB apart. The log does not flush the file after an append. A crash of
 * the process does not lose the writes to the file. After a power loss, the file may be older than the segments. At
 * startup, the log reports and replaces a damaged copy. An entry has 64 bytes:
 *
 *      0  "EVENTEND"    8  format version    12  log id, 16 bytes   28  segment number    32  end offset
 *     40  events       48  last position     56  checksum of the last frame   60  checksum of bytes 0 to 59
 */
import fs from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { readSafeInteger, writeSafeInteger } from "../model/bytes.ts";
import { createDamageError, LogStartError } from "../model/log-errors.ts";
import { isNoSpaceError } from "./disk-full.ts";
import {
  BLOCK_BYTES,
  type ChainState,
  createBlock,
  FORMAT_VERSION,
  isSameChainState,
  readBlock,
  readChainState,
  sealBlock,
  writeChainState,
} from "./segment-format.ts";

export const ACKNOWLEDGED_FILE = "acknowledged";

const MAGIC = "EVENTEND";
/**
 * Offset of the second copy. The copies are 4 KiB apart, so a disk with sectors of 4 KiB cannot damage both in one
 * write.
 */
const SECOND_COPY_OFFSET = 4096;
/** Offset of the second copy in the shorter files of earlier releases. */
const FORMER_SECOND_COPY_OFFSET = 512;
const FILE_BYTES = SECOND_COPY_OFFSET + BLOCK_BYTES;

/** End of a log: its last segment, the offset at which its last frame ends, and the state of the frame chain there. */
export interface LogEnd extends ChainState {
  readonly logId: string;
  /** Number of the last segment, counted from 1. */
  readonly segment: number;
  /** Offset in bytes at which the last frame ends. */
  readonly offset: number;
}

/** Encodes the complete file with both copies of the entry. */
export function encodeEndFile(end: LogEnd): Buffer {
  const entry = encodeEntry(end);
  const content = Buffer.alloc(FILE_BYTES);
  for (const offset of [0, SECOND_COPY_OFFSET]) entry.copy(content, offset);
  return content;
}

function encodeEntry(end: LogEnd): Buffer {
  const entry = createBlock(MAGIC, end.logId, end.segment);
  writeSafeInteger(entry, end.offset, 32);
  writeChainState(entry, end, 40);
  return sealBlock(entry);
}

function decodeEntry(entry: Buffer): LogEnd | undefined {
  const fields = readBlock(entry, MAGIC);
  if (fields === undefined) return undefined;
  const { version, logId, segment } = fields;
  if (version !== FORMAT_VERSION) {
    throw new LogStartError(`The log has format ${version}; this program reads format ${FORMAT_VERSION}.`);
  }
  return { logId, segment, offset: readSafeInteger(entry, 32), ...readChainState(entry, 40) };
}

/** Content of the file `acknowledged`. */
interface EndFileContent {
  /** The newer of the two copies. */
  readonly end: LogEnd;
  /** False if one copy is damaged. */
  readonly isIntact: boolean;
  /** True if both copies are intact, equal and at the offsets that this release uses. */
  readonly isCurrent: boolean;
}

/** The open file `acknowledged`. */
export class AcknowledgedEndFile {
  readonly #fd: number;
  readonly path: string;

  private constructor(fd: number, path: string) {
    this.#fd = fd;
    this.path = path;
  }

  /**
   * Opens the file and reads its content.
   *
   * @throws LogDamagedError if the file is missing or both copies are damaged
   * @throws LogStartError if the file has an unsupported format
   */
  static async open(dir: string): Promise<EndFileContent & { file: AcknowledgedEndFile }> {
    const path = join(dir, ACKNOWLEDGED_FILE);
    const fd = await promisify(fs.open)(path, "r+").catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      throw createDamageError(path, "The file is missing. It contains the position of the last acknowledged event.");
    });
    try {
      return { file: new AcknowledgedEndFile(fd, path), ...(await readCopies(fd, path)) };
    } catch (error) {
      await promisify(fs.close)(fd);
      throw error;
    }
  }

  /**
   * Writes both copies of a new end. The writes are synchronous, because they change only cached pages and do not wait
   * for the disk. Asynchronous writes would use the thread pool and make every append slower. If the disk is full, the
   * second copy may stay unchanged.
   *
   * @throws the disk's error; if this error says that the disk is full, the file still contains the previous end
   */
  write(end: LogEnd): void {
    const entry = encodeEntry(end);
    this.#writeAt(entry, 0);
    try {
      this.#writeAt(entry, SECOND_COPY_OFFSET);
    } catch (error) {
      // The first copy contains the new end. If the copies differ, startup uses the newer copy.
      if (!isNoSpaceError(error)) throw error;
    }
  }

  #writeAt(entry: Buffer, offset: number): void {
    if (fs.writeSync(this.#fd, entry, 0, entry.length, offset) === entry.length) return;
    throw new Error(`${this.path} could not be written in full.`);
  }

  async flush(): Promise<void> {
    await promisify(fs.fdatasync)(this.#fd);
  }

  async close(): Promise<void> {
    await promisify(fs.close)(this.#fd);
  }
}

async function readCopies(fd: number, path: string): Promise<EndFileContent> {
  const content = Buffer.alloc(FILE_BYTES);
  const { bytesRead } = await promisify(fs.read)(fd, content, 0, FILE_BYTES, 0);
  // A file with the current length can contain an outdated copy at byte 512, which an earlier release wrote.
  const isFormerFormat = bytesRead <= SECOND_COPY_OFFSET;
  const [firstCopy, secondCopy] = [0, isFormerFormat ? FORMER_SECOND_COPY_OFFSET : SECOND_COPY_OFFSET].map((offset) =>
    decodeEntry(content.subarray(0, bytesRead).subarray(offset, offset + BLOCK_BYTES)),
  );
  const end = selectNewerEnd(firstCopy, secondCopy);
  if (end === undefined) throw createDamageError(path, "Both copies of the acknowledged end are damaged.");
  const isIntact = firstCopy !== undefined && secondCopy !== undefined;
  return { end, isIntact, isCurrent: isIntact && !isFormerFormat && isSameLogEnd(firstCopy, secondCopy) };
}

function selectNewerEnd(firstEnd: LogEnd | undefined, secondEnd: LogEnd | undefined): LogEnd | undefined {
  if (firstEnd === undefined || secondEnd === undefined) return firstEnd ?? secondEnd;
  const difference =
    secondEnd.eventCount - firstEnd.eventCount ||
    secondEnd.segment - firstEnd.segment ||
    secondEnd.offset - firstEnd.offset;
  return difference > 0 ? secondEnd : firstEnd;
}

/** Compares two ends of the same log. */
export function isSameLogEnd(firstEnd: LogEnd, secondEnd: LogEnd): boolean {
  return (
    firstEnd.segment === secondEnd.segment &&
    firstEnd.offset === secondEnd.offset &&
    isSameChainState(firstEnd, secondEnd)
  );
}
