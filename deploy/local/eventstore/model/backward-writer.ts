/**
 * Writes protobuf messages from the end of a buffer to its start.
 *
 * In protobuf, the length of a nested message precedes the message. With backward writing, the message is written
 * first, so its length is known. Nested messages therefore need no second pass and no copy.
 */
export class BackwardWriter {
  readonly #buffer: Buffer;
  #start: number;

  /** @param capacity size of the buffer in bytes; the messages must fit into it */
  constructor(capacity: number) {
    this.#buffer = Buffer.allocUnsafe(capacity);
    this.#start = capacity;
  }

  /** Number of bytes that are still free. */
  get freeBytes(): number {
    return this.#start;
  }

  /** Returns the bytes written so far. */
  toBuffer(): Buffer {
    return this.#buffer.subarray(this.#start);
  }

  writeByte(value: number): void {
    this.#start -= 1;
    this.#buffer[this.#start] = value;
  }

  writeUint16(value: number): void {
    this.#start -= 2;
    this.#buffer.writeUInt16BE(value, this.#start);
  }

  writeBytes(bytes: Uint8Array): void {
    this.#start -= bytes.length;
    this.#buffer.set(bytes, this.#start);
  }

  /** Writes a text as UTF-8. Returns the number of bytes written. */
  writeText(value: string): number {
    const length = Buffer.byteLength(value);
    this.#start -= length;
    this.#buffer.write(value, this.#start, "utf8");
    return length;
  }

  /** Writes a non-negative integer as a protobuf varint. */
  writeVarint(value: number | bigint): void {
    if (typeof value === "bigint") this.#writeBigintVarint(value);
    else this.#writeNumberVarint(value);
  }

  #writeNumberVarint(value: number): void {
    let length = 1;
    for (let bound = 128; value >= bound; bound *= 128) length += 1;
    this.#start -= length;
    let remainder = value;
    let index = this.#start;
    while (remainder > 127) {
      this.#buffer[index] = (remainder % 128) | 128;
      remainder = Math.floor(remainder / 128);
      index += 1;
    }
    this.#buffer[index] = remainder;
  }

  #writeBigintVarint(value: bigint): void {
    const bytes: number[] = [];
    let remainder = value;
    while (remainder > 127n) {
      bytes.push(Number(remainder & 127n) | 128);
      remainder >>= 7n;
    }
    bytes.push(Number(remainder));
    this.writeBytes(Uint8Array.from(bytes));
  }

  /**
   * Completes a protobuf field by writing the length and the tag before its content.
   *
   * @param end value of `freeBytes` before the content was written
   */
  completeField(tag: number, end: number): void {
    this.writeVarint(end - this.#start);
    this.writeByte(tag);
  }
}
