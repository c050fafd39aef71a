const CHUNK_BITS = 16;
const CHUNK_LENGTH = 1 << CHUNK_BITS;
const CHUNK_MASK = CHUNK_LENGTH - 1;

type Chunk = Float64Array | Uint32Array;

/** Growing array of numbers, stored in chunks of fixed size. It grows without copying and wastes little memory. */
export class ChunkedArray {
  readonly #createChunk: () => Chunk;
  readonly #chunks: Chunk[] = [];
  #length = 0;

  private constructor(createChunk: () => Chunk) {
    this.#createChunk = createChunk;
  }

  /** Creates an array of safe integers, which take 8 bytes each. */
  static forSafeIntegers(): ChunkedArray {
    return new ChunkedArray(() => new Float64Array(CHUNK_LENGTH));
  }

  /** Creates an array of unsigned integers below 2^32, which take 4 bytes each. */
  static forUint32(): ChunkedArray {
    return new ChunkedArray(() => new Uint32Array(CHUNK_LENGTH));
  }

  get length(): number {
    return this.#length;
  }

  push(value: number): void {
    if ((this.#length & CHUNK_MASK) === 0) this.#chunks.push(this.#createChunk());
    this.#length += 1;
    this.set(this.#length - 1, value);
  }

  /** @throws RangeError if the index is out of range */
  at(index: number): number {
    const value = index < this.#length ? this.#chunks[index >>> CHUNK_BITS]?.[index & CHUNK_MASK] : undefined;
    if (value === undefined)
      throw new RangeError(`Index ${index} is out of range: the array has ${this.#length} values.`);
    return value;
  }

  /**
   * Replaces the value at an index.
   * @throws RangeError if the index is out of range
   */
  set(index: number, value: number): void {
    const chunk = this.#chunks[index >>> CHUNK_BITS];
    if (chunk === undefined || index >= this.#length) {
      throw new RangeError(`Index ${index} is out of range: the array has ${this.#length} values.`);
    }
    chunk[index & CHUNK_MASK] = value;
  }
}
