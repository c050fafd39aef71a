/**
 * The file `acknowledged`. It records the acknowledged end, which is the end of the last acknowledged frame.
 *
 * After each frame, the log flushes the file `log`, writes this file and then acknowledges the appends. At startup, all
 * data up to the acknowledged end must be intact. Only data after the acknowledged end may be incomplete.
 *
 * The log does not flush the file after an append. A crash of the process does not lose the writes to the file. After a
 * power loss, the file may be older than the log. Its 64 bytes lie in one sector of the disk:
 *
 *      0  "EVENTEND"    8  format version    12  log id, 16 bytes   32  end offset       40  events       48  last position
 *     56  checksum of the last frame   60  checksum of bytes 0 to 59
 */
import fs from "node:fs";
import { join } from "node:path";
import { createDamageError, LogStartError } from "../model/log-errors.ts";
import {
  BLOCK_BYTES,
  type ChainState,
  createBlock,
  FORMAT_VERSION,
  isSameChainState,
  readBlock,
  readChainState,
  readSafeInteger,
  sealBlock,
  writeChainState,
  writeSafeInteger,
} from "./log-format.ts";

export const ACKNOWLEDGED_FILE = "acknowledged";

const MAGIC = "EVENTEND";

/** End of a log: the last frame's end, and the state of the frame chain there. */
export interface LogEnd extends ChainState {
  readonly logId: string;
  readonly offset: number;
}

export function encodeEnd(end: LogEnd): Buffer {
  const block = createBlock(MAGIC, end.logId);
  writeSafeInteger(block, end.offset, 32);
  writeChainState(block, end, 40);
  return sealBlock(block);
}

export class AcknowledgedEndFile {
  readonly #fd: number;
  readonly path: string;

  constructor(dir: string) {
    this.path = join(dir, ACKNOWLEDGED_FILE);
    if (!fs.existsSync(this.path))
      throw createDamageError(
        this.path,
        "The file is missing. It contains the position of the last acknowledged event.",
      );
    this.#fd = fs.openSync(this.path, "r+");
  }

  /**
   * @throws LogDamagedError if the file is damaged
   * @throws LogStartError if the file has an unsupported format
   */
  read(): LogEnd {
    const block = Buffer.alloc(BLOCK_BYTES);
    fs.readSync(this.#fd, block, 0, BLOCK_BYTES, 0);
    const fields = readBlock(block, MAGIC);
    if (fields === undefined) throw createDamageError(this.path, "The file's checksum does not match its content.");
    const { version, logId } = fields;
    if (version !== FORMAT_VERSION)
      throw new LogStartError(`The log has format ${version}; this program reads format ${FORMAT_VERSION}.`);
    return { logId, offset: readSafeInteger(block, 32), ...readChainState(block, 40) };
  }

  /**
   * Writes a new end. The write is synchronous, because it changes only cached pages and does not wait for the disk. An
   * asynchronous write would use the thread pool and make every append slower.
   */
  write(end: LogEnd): void {
    if (fs.writeSync(this.#fd, encodeEnd(end), 0, BLOCK_BYTES, 0) === BLOCK_BYTES) return;
    throw new Error(`${this.path} could not be written in full.`);
  }

  close(): void {
    fs.closeSync(this.#fd);
  }
}

export function isSameLogEnd(firstEnd: LogEnd, secondEnd: LogEnd): boolean {
  return firstEnd.offset === secondEnd.offset && isSameChainState(firstEnd, secondEnd);
}
