/**
 * The file that says how far the log was acknowledged. It is written after the flush of each frame and before
 * the answers. On start, everything up to this end must be intact; only what lies beyond may be incomplete.
 *
 * The file holds the same entry twice, in two disk sectors, written with one call. It is not flushed: it
 * survives the end of the process, and after power loss it is merely older than the segments. One damaged copy
 * is reported and replaced. An entry has 64 bytes:
 *
 *      0  "EVENTEND"    8  format version    12  log id, 16 bytes   28  segment number    32  end offset
 *     40  events       48  last position     56  checksum of the last frame   60  checksum of bytes 0 to 59
 */
import fs from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import { readNumber, writeNumber } from "../model/bytes.ts";
import { damageOf } from "../model/damage.ts";
import { LogStartError } from "../model/start-error.ts";
import { type ChainEnd, FORMAT } from "./segment-format.ts";

export const ACKNOWLEDGED_FILE = "acknowledged";

const MAGIC = "EVENTEND";
const ENTRY_BYTES = 64;
const COPIES_AT = [0, 512] as const;
const FILE_BYTES = 1024;

/** End of a log: the number of the last segment that has a frame, from 1, its end in bytes, and the chain. */
export interface LogEnd extends ChainEnd {
  readonly logId: string;
  readonly segment: number;
  readonly offset: number;
}

/** Content of the file. */
export function encodeEnd(end: LogEnd): Buffer {
  const file = Buffer.alloc(FILE_BYTES);
  file.write(MAGIC, 0, "latin1");
  file.writeUInt32BE(FORMAT, 8);
  file.write(end.logId, 12, "hex");
  file.writeUInt32BE(end.segment, 28);
  writeNumber(file, end.offset, 32);
  writeNumber(file, end.events, 40);
  writeNumber(file, end.position, 48);
  file.writeUInt32BE(end.checksum, 56);
  file.writeUInt32BE(crc32(file.subarray(0, 60)), 60);
  file.copy(file, COPIES_AT[1], 0, ENTRY_BYTES);
  return file;
}

function decodeEntry(entry: Buffer): LogEnd | undefined {
  if (entry.length < ENTRY_BYTES || entry.toString("latin1", 0, 8) !== MAGIC) return undefined;
  if (crc32(entry.subarray(0, 60)) !== entry.readUInt32BE(60)) return undefined;
  const version = entry.readUInt32BE(8);
  if (version !== FORMAT)
    throw new LogStartError(`The log has format ${version}; this program reads ${FORMAT}.`);
  return {
    logId: entry.toString("hex", 12, 28),
    segment: entry.readUInt32BE(28),
    offset: readNumber(entry, 32),
    events: readNumber(entry, 40),
    position: readNumber(entry, 48),
    checksum: entry.readUInt32BE(56),
  };
}

export class AcknowledgedEnd {
  readonly #fd: number;
  readonly path: string;

  private constructor(fd: number, path: string) {
    this.#fd = fd;
    this.path = path;
  }

  /**
   * Opens the file and reads the end.
   *
   * @returns the newer of the two copies; `isIntact` is false if the other one is damaged
   * @throws LogDamaged if the file is missing or both copies are damaged
   * @throws LogStartError if the file has another format
   */
  static async open(dir: string): Promise<{ file: AcknowledgedEnd; end: LogEnd; isIntact: boolean }> {
    const path = join(dir, ACKNOWLEDGED_FILE);
    const fd = await promisify(fs.open)(path, "r+").catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      throw damageOf(path, "The file is missing. It says how far the log was acknowledged.");
    });
    const content = Buffer.alloc(FILE_BYTES);
    const { bytesRead } = await promisify(fs.read)(fd, content, 0, FILE_BYTES, 0);
    const copies = COPIES_AT.map((at) =>
      decodeEntry(content.subarray(0, bytesRead).subarray(at, at + ENTRY_BYTES)),
    );
    const [end] = copies
      .filter((copy) => copy !== undefined)
      .sort((one, other) => other.events - one.events || other.offset - one.offset);
    if (end === undefined) {
      await promisify(fs.close)(fd);
      throw damageOf(path, "Both copies of the acknowledged end are damaged.");
    }
    return { file: new AcknowledgedEnd(fd, path), end, isIntact: !copies.includes(undefined) };
  }

  /**
   * Writes the end. Synchronous on purpose: it overwrites one cached page and waits for no disk, while a detour
   * through the thread pool would lengthen every append.
   */
  write(end: LogEnd): void {
    const content = encodeEnd(end);
    if (fs.writeSync(this.#fd, content, 0, content.length, 0) === content.length) return;
    throw new Error(`${this.path} could not be written in full.`);
  }

  async flush(): Promise<void> {
    await promisify(fs.fdatasync)(this.#fd);
  }

  async close(): Promise<void> {
    await promisify(fs.close)(this.#fd);
  }
}
