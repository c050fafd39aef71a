/**
 * In-memory index of the log: the location of each event, and the events of each stream.
 *
 * An entry takes 24 bytes. It points to the previous event of the same stream, so no list per stream is needed. To find
 * a revision, the index goes back from the newest event, one step per event. This is fast enough for short streams.
 * Readers compare each record with its index entry.
 */
import { NO_STREAM } from "../model/append-rules.ts";
import { decodeProposedEvent, readStreamName } from "../model/record.ts";
import { getOriginalStream, NO_EFFECT, parseMetadata, type StreamState } from "../model/stream-metadata.ts";
import type { StoredRecord } from "./log-format.ts";

const TOMBSTONE_MARK = 0xffff_ffff;

/** Effect of metadata and deletions on reads of a stream. */
type StreamEffect = Omit<StreamState, "lastRevision">;

interface StreamEntry {
  /** Ordinal of the stream's newest event. Undefined if the stream has only metadata or a tombstone. */
  readonly newestOrdinal: number | undefined;
  readonly effect: StreamEffect;
}

export class LogIndex {
  readonly #positions = new NumberColumn(Float64Array);
  readonly #offsets = new NumberColumn(Float64Array);
  readonly #revisions = new NumberColumn(Uint32Array);
  readonly #previousOrdinals = new NumberColumn(Uint32Array);
  readonly #streams = new Map<string, StreamEntry>();
  #endOffset = 0;

  /** Equals the ordinal of the next event. */
  get eventCount(): number {
    return this.#positions.length;
  }

  /** 0 in an empty log. */
  get lastPosition(): number {
    return this.eventCount === 0 ? 0 : this.#positions.at(this.eventCount - 1);
  }

  setEndOffset(offset: number): void {
    this.#endOffset = offset;
  }

  /**
   * Adds the next event.
   * @returns undefined on success; otherwise a sentence that states which value is wrong: the ordinal, position or
   * revision
   */
  add(stream: string, record: StoredRecord, offset: number): string | undefined {
    const { ordinal, position, revision } = record;
    if (ordinal !== this.eventCount) return `The next event has the ordinal ${ordinal}, expected ${this.eventCount}.`;
    if (position <= this.lastPosition)
      return `Position ${position} is not greater than the previous position, ${this.lastPosition}.`;
    const newestOrdinal = this.#streams.get(stream)?.newestOrdinal;
    const expectedRevision = newestOrdinal === undefined ? 0 : this.#revisions.at(newestOrdinal) + 1;
    if (revision !== undefined && revision !== expectedRevision) {
      return `The next event of the stream has the revision ${revision}, expected ${expectedRevision}.`;
    }
    this.#positions.push(position);
    this.#offsets.push(offset);
    this.#revisions.push(revision ?? TOMBSTONE_MARK);
    this.#previousOrdinals.push(newestOrdinal ?? ordinal);
    if (revision === undefined) this.applyEffect(stream, { isTombstoned: true });
    else this.#streams.set(stream, { ...this.#getEntry(stream), newestOrdinal: ordinal });
    return undefined;
  }

  /** Changes which events the reads of a stream return. */
  applyEffect(stream: string, effect: Partial<StreamEffect>): void {
    const entry = this.#getEntry(stream);
    this.#streams.set(stream, { ...entry, effect: { ...entry.effect, ...effect } });
  }

  getStreamState(stream: string): StreamState {
    const { newestOrdinal, effect } = this.#getEntry(stream);
    return { lastRevision: newestOrdinal === undefined ? NO_STREAM : this.#revisions.at(newestOrdinal), ...effect };
  }

  #getEntry(stream: string): StreamEntry {
    return this.#streams.get(stream) ?? { newestOrdinal: undefined, effect: { ...NO_EFFECT, isTombstoned: false } };
  }

  getPosition(ordinal: number): number {
    return this.#positions.at(ordinal);
  }

  getOffset(ordinal: number): number {
    return this.#offsets.at(ordinal);
  }

  /** Undefined for a tombstone. */
  getRevision(ordinal: number): number | undefined {
    const revision = this.#revisions.at(ordinal);
    return revision === TOMBSTONE_MARK ? undefined : revision;
  }

  /**
   * Returns an offset at or after the end of an event's record: the start of the next record, or the end of the last
   * frame. A frame header may lie between the record and this offset.
   */
  getEndOffset(ordinal: number): number {
    return ordinal + 1 === this.eventCount ? this.#endOffset : this.getOffset(ordinal + 1);
  }

  /**
   * Returns the ordinal of the first event at or after a position. If there is no such event, returns the number of
   * events.
   */
  findOrdinalFrom(position: number): number {
    return findFirstIndex(this.eventCount, (ordinal) => this.#positions.at(ordinal) >= position);
  }

  /** @throws {RangeError} if the stream has no such revision */
  findPosition(stream: string, revision: number): number {
    return this.#positions.at(this.#findOrdinal(stream, revision));
  }

  #findOrdinal(stream: string, revision: number): number {
    let ordinal = this.#streams.get(stream)?.newestOrdinal;
    if (ordinal === undefined || revision < 0 || revision > this.#revisions.at(ordinal))
      throw new RangeError(`The index does not contain revision ${revision} of the stream.`);
    while (this.#revisions.at(ordinal) > revision) ordinal = this.#previousOrdinals.at(ordinal);
    return ordinal;
  }

  /** Returns the ordinals of all revisions from `first` to `last` in order. Both revisions must exist. */
  findOrdinals(stream: string, firstRevision: number, lastRevision: number): number[] {
    const ordinals = new Array<number>(lastRevision - firstRevision + 1);
    let ordinal = this.#findOrdinal(stream, lastRevision);
    for (let index = ordinals.length - 1; index >= 0; index -= 1) {
      ordinals[index] = ordinal;
      ordinal = this.#previousOrdinals.at(ordinal);
    }
    return ordinals;
  }
}

/**
 * Adds a stored record to the index. A metadata record also changes the state of the stream that it describes.
 *
 * @param offset offset of the record
 * @returns undefined on success; otherwise a sentence that states why the record cannot follow the previous record
 */
export function indexRecord(index: LogIndex, record: StoredRecord, offset: number): string | undefined {
  const stream = readStreamName(record.body);
  const problem = index.add(stream, record, offset);
  const originalStream = getOriginalStream(stream);
  if (problem !== undefined || originalStream === undefined) return problem;
  try {
    index.applyEffect(originalStream, parseMetadata(decodeProposedEvent(record.body)));
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

type NumericArray = Float64Array | Uint32Array;

/** Growing array of numbers. An index that is out of range is a defect, so it throws. */
class NumberColumn {
  readonly #ArrayType: new (
    length: number,
  ) => NumericArray;
  #values: NumericArray;
  #length = 0;

  constructor(ArrayType: new (length: number) => NumericArray) {
    this.#ArrayType = ArrayType;
    this.#values = new ArrayType(1024);
  }

  get length(): number {
    return this.#length;
  }

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const values = new this.#ArrayType(2 * this.#length);
      values.set(this.#values);
      this.#values = values;
    }
    this.#values[this.#length] = value;
    this.#length += 1;
  }

  at(index: number): number {
    const value = index < this.#length ? this.#values[index] : undefined;
    if (value === undefined) throw new RangeError(`The index has ${this.#length} values, but no value ${index}.`);
    return value;
  }
}

/**
 * Returns the first index below `length` for which a monotonic condition is true. If there is no such index, returns
 * `length`.
 */
export function findFirstIndex(length: number, condition: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (condition(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
