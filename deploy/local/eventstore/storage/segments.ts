/** The segment files of a log. Reads at any offset, appends to the last file and creates the next file. */
import fs from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { createDamageError } from "../model/log-errors.ts";

const readAt = promisify(fs.read);
const writeAt = promisify(fs.write);
const truncateTo = promisify(fs.ftruncate);
const flushData = promisify(fs.fdatasync);
const closeFile = promisify(fs.close);
const openFile = promisify(fs.open);

const SEGMENT_NAME_PATTERN = /^(\d{8})\.segment$/;

/** Returns the file name of a segment. Segment numbers count from 1. */
export function formatSegmentName(segment: number): string {
  return `${String(segment).padStart(8, "0")}.segment`;
}

/** Returns the segment number in a file name; undefined if the file is not a segment. */
export function parseSegmentNumber(name: string): number | undefined {
  const digits = SEGMENT_NAME_PATTERN.exec(basename(name))?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** Flushes a directory, so that created and renamed files survive a power loss. */
export async function syncDirectory(dir: string): Promise<void> {
  const handle = await open(dir, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Creates a file, and flushes its content and its directory to disk. The file gets its name only after its content is
 * flushed, so a failure or a crash never leaves an incomplete file under this name.
 */
export async function createFile(dir: string, name: string, content: Buffer): Promise<void> {
  const unfinishedFile = join(dir, `${name}.new`);
  try {
    const handle = await open(unfinishedFile, "w", 0o600);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(unfinishedFile, join(dir, name));
    await syncDirectory(dir);
  } catch (error) {
    await rm(unfinishedFile, { force: true });
    throw error;
  }
}

interface OpenSegment {
  readonly path: string;
  readonly fd: number;
}

export class Segments {
  readonly dir: string;
  readonly #openSegments: OpenSegment[] = [];

  constructor(dir: string) {
    this.dir = dir;
  }

  get count(): number {
    return this.#openSegments.length;
  }

  /** Returns the path of a segment. `segment` counts from 0. */
  getPath(segment: number): string {
    return this.#getSegment(segment).path;
  }

  /** Opens the next segment file, which must exist. Returns its size in bytes. */
  async openNext(): Promise<number> {
    const path = join(this.dir, formatSegmentName(this.count + 1));
    const fd = await openFile(path, "r+");
    this.#openSegments.push({ path, fd });
    return promisify(fs.fstat)(fd).then((stat) => stat.size);
  }

  /** Creates, flushes and opens the next segment file. */
  async createNext(header: Buffer): Promise<void> {
    await createFile(this.dir, formatSegmentName(this.count + 1), header);
    await this.openNext();
  }

  /**
   * Reads bytes of a segment.
   *
   * @param position log position of the first event in the range, for the error message
   * @throws LogDamagedError if the file ends early or cannot be read
   */
  async read(segment: number, offset: number, length: number, position: number): Promise<Buffer> {
    const { path, fd } = this.#getSegment(segment);
    const buffer = Buffer.allocUnsafeSlow(length);
    const describeLocation = (failureOffset: number) => `${path}, offset ${failureOffset}, position ${position}`;
    for (let count = 0; count < length; ) {
      const { bytesRead } = await readAt(fd, buffer, count, length - count, offset + count).catch((error) => {
        throw createDamageError(describeLocation(offset + count), `The file cannot be read: ${String(error)}.`);
      });
      if (bytesRead === 0)
        throw createDamageError(describeLocation(offset + count), "The file ends before the end of the event.");
      count += bytesRead;
    }
    return buffer;
  }

  /** Writes to the last segment without flushing. On error, the caller must truncate the segment or stop the log. */
  async write(bytes: Buffer, offset: number): Promise<void> {
    // If the disk accepts only some of the bytes, the next call of writeAt() throws the disk's error.
    for (let count = 0; count < bytes.length; ) {
      const { bytesWritten } = await writeAt(this.#lastSegment.fd, bytes, count, bytes.length - count, offset + count);
      if (bytesWritten === 0) throw new Error(`Could not write to ${this.#lastSegment.path}.`);
      count += bytesWritten;
    }
  }

  /** Truncates the last segment to the given length in bytes. */
  async truncate(length: number): Promise<void> {
    await truncateTo(this.#lastSegment.fd, length);
  }

  /** Flushes the last segment's data to disk. */
  async flush(): Promise<void> {
    await flushData(this.#lastSegment.fd);
  }

  async close(): Promise<void> {
    for (const { fd } of this.#openSegments.splice(0)) await closeFile(fd);
  }

  get #lastSegment(): OpenSegment {
    return this.#getSegment(this.count - 1);
  }

  #getSegment(segment: number): OpenSegment {
    const openSegment = this.#openSegments[segment];
    if (openSegment === undefined) throw new RangeError(`Segment ${segment} is not open.`);
    return openSegment;
  }
}
