/** Numbers in the order of their index, in fixed-size chunks: growth neither copies nor leaves much unused. */
const CHUNK_BITS = 16;
const CHUNK_LENGTH = 1 << CHUNK_BITS;
const CHUNK_MASK = CHUNK_LENGTH - 1;

type Chunk = Float64Array | Uint32Array;

export class Column {
  readonly #newChunk: () => Chunk;
  readonly #chunks: Chunk[] = [];
  #length = 0;

  private constructor(newChunk: () => Chunk) {
    this.#newChunk = newChunk;
  }

  /** Holds safe integers in 8 bytes each. */
  static ofSafeIntegers(): Column {
    return new Column(() => new Float64Array(CHUNK_LENGTH));
  }

  /** Holds integers below 2^32 in 4 bytes each. */
  static ofUint32(): Column {
    return new Column(() => new Uint32Array(CHUNK_LENGTH));
  }

  get length(): number {
    return this.#length;
  }

  push(value: number): void {
    if ((this.#length & CHUNK_MASK) === 0) this.#chunks.push(this.#newChunk());
    this.#length += 1;
    this.set(this.#length - 1, value);
  }

  /** @throws RangeError if nothing was stored at the index. */
  at(index: number): number {
    const value = index < this.#length ? this.#chunks[index >>> CHUNK_BITS]?.[index & CHUNK_MASK] : undefined;
    if (value === undefined) throw new RangeError(`A column of ${this.#length} has no index ${index}.`);
    return value;
  }

  /** Replaces a stored value. */
  set(index: number, value: number): void {
    const chunk = this.#chunks[index >>> CHUNK_BITS];
    if (chunk === undefined || index >= this.#length) {
      throw new RangeError(`A column of ${this.#length} has no index ${index}.`);
    }
    chunk[index & CHUNK_MASK] = value;
  }
}
