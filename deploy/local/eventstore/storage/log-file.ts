import fs from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { createDamageError } from "../model/log-errors.ts";

const readAt = promisify(fs.read);
const writeAt = promisify(fs.write);

const REWRITE_BYTES = 4 * 1024 * 1024;

/** Flushes a directory to disk, so that created and renamed files survive a power loss. */
export async function syncDirectory(dir: string): Promise<void> {
  const handle = await open(dir, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Creates a file, and flushes its content to disk. */
export async function createFile(dir: string, name: string, content: Buffer): Promise<void> {
  const handle = await open(join(dir, name), "w", 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export class LogFile {
  readonly path: string;
  readonly #fd: number;

  constructor(path: string) {
    this.path = path;
    if (!fs.existsSync(path)) throw createDamageError(path, "The file is missing.");
    this.#fd = fs.openSync(path, "r+");
  }

  getSize(): number {
    return fs.fstatSync(this.#fd).size;
  }

  /**
   * Reads bytes.
   *
   * @param position log position of the first event in the range, for the error message
   * @throws LogDamagedError if the file ends early or cannot be read
   */
  async read(offset: number, length: number, position: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafeSlow(length);
    const describeLocation = (failureOffset: number) => `${this.path}, offset ${failureOffset}, position ${position}`;
    for (let count = 0; count < length; ) {
      const { bytesRead } = await readAt(this.#fd, buffer, count, length - count, offset + count).catch((error) => {
        throw createDamageError(describeLocation(offset + count), `The file cannot be read: ${String(error)}.`);
      });
      if (bytesRead === 0)
        throw createDamageError(describeLocation(offset + count), "The file ends before the end of the event.");
      count += bytesRead;
    }
    return buffer;
  }

  /** Writes without flushing. On error, the caller must truncate the file or stop the log. */
  async write(bytes: Buffer, offset: number): Promise<void> {
    // If the disk accepts only some of the bytes, the next call of writeAt() throws the disk's error.
    for (let count = 0; count < bytes.length; ) {
      const { bytesWritten } = await writeAt(this.#fd, bytes, count, bytes.length - count, offset + count);
      if (bytesWritten === 0) throw new Error(`Could not write to ${this.path}.`);
      count += bytesWritten;
    }
  }

  /**
   * Writes a range again, so that the next flush includes it. After a failed flush, the kernel may treat pages as
   * flushed although they exist only in its cache.
   *
   * @param position log position for the message of a read error
   */
  async rewrite(start: number, end: number, position: number): Promise<void> {
    for (let offset = start; offset < end; offset += REWRITE_BYTES)
      await this.write(await this.read(offset, Math.min(REWRITE_BYTES, end - offset), position), offset);
  }

  async truncate(length: number): Promise<void> {
    await promisify(fs.ftruncate)(this.#fd, length);
  }

  async flush(): Promise<void> {
    await promisify(fs.fdatasync)(this.#fd);
  }

  close(): void {
    fs.closeSync(this.#fd);
  }
}
