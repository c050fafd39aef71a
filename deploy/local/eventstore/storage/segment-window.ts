import type { Segments } from "./segments.ts";

const WINDOW_BYTES = 4 * 1024 * 1024;

/** Reads a segment from start to end. Reads large blocks, so that few disk reads are needed. */
export class SegmentWindow {
  readonly #segments: Segments;
  #window = Buffer.allocUnsafeSlow(WINDOW_BYTES);
  #segment = -1;
  #start = 0;
  #length = 0;

  constructor(segments: Segments) {
    this.#segments = segments;
  }

  /** Returns bytes of a segment, fewer if the file ends earlier. The buffer is valid until the next call. */
  async read(segment: number, offset: number, length: number): Promise<Buffer> {
    const isLoaded =
      segment === this.#segment && offset >= this.#start && offset + length <= this.#start + this.#length;
    if (!isLoaded) await this.#load(segment, offset, length);
    const windowOffset = offset - this.#start;
    return this.#window.subarray(windowOffset, Math.min(windowOffset + length, this.#length));
  }

  async #load(segment: number, offset: number, length: number): Promise<void> {
    if (length > this.#window.length) this.#window = Buffer.allocUnsafeSlow(length);
    this.#length = await this.#segments.readInto(segment, this.#window, offset);
    this.#segment = segment;
    this.#start = offset;
  }
}
