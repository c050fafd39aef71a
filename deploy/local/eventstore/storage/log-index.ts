/**
 * In-memory index of the log: the location of each event, and the events of each stream.
 *
 * An entry takes 24 bytes. It points to the previous event of the stream and to an earlier event of the stream (a skew-binary
 * jump pointer). So a lookup by revision takes O(log n) steps and needs no list per stream. Readers compare each record
 * that they read with its entry in the index.
 */
import type { StreamState } from "../model/stream-state.ts";
import { Column } from "./column.ts";
import type { StoredRecord } from "./segment-format.ts";
import { StreamTable } from "./stream-table.ts";

/** Marks a tombstone in the column of revisions. A tombstone has no revision. */
const TOMBSTONE = 0xffff_ffff;

export class LogIndex {
  readonly #positions = Column.ofSafeIntegers();
  readonly #offsets = Column.ofUint32();
  readonly #revisions = Column.ofUint32();
  readonly #previous = Column.ofUint32();
  readonly #jumps = Column.ofUint32();
  readonly #segmentStarts: number[] = [];
  readonly #segmentEnds: number[] = [];
  readonly #streams = new StreamTable();

  /** Number of events. The next event gets this number as its ordinal. */
  get events(): number {
    return this.#positions.length;
  }

  get streams(): number {
    return this.#streams.size;
  }

  get segments(): number {
    return this.#segmentStarts.length;
  }

  /** Log position of the last event; 0 in an empty log. */
  get position(): number {
    return this.events === 0 ? 0 : this.#positions.at(this.events - 1);
  }

  /** Starts a new segment. Events added later belong to it. */
  startSegment(): void {
    this.#segmentStarts.push(this.events);
    this.#segmentEnds.push(0);
  }

  /** Sets the offset at which the last frame of the last segment ends. */
  setSegmentEnd(offset: number): void {
    this.#segmentEnds[this.#segmentEnds.length - 1] = offset;
  }

  /**
   * Adds the next event.
   *
   * @returns a sentence that describes the problem if the ordinal, position or revision is wrong; undefined on success
   */
  add(stream: string, record: StoredRecord, offset: number): string | undefined {
    const { ordinal, position, revision } = record;
    if (ordinal !== this.events) return `The next event has the ordinal ${ordinal}, expected ${this.events}.`;
    if (position <= this.position)
      return `Position ${position} is not greater than the previous position, ${this.position}.`;
    const newest = this.#streams.newest(stream);
    const expected = newest === undefined ? 0 : this.#revisions.at(newest) + 1;
    if (revision !== undefined && revision !== expected) {
      return `The next event of the stream has the revision ${revision}, expected ${expected}.`;
    }
    this.#positions.push(position);
    this.#offsets.push(offset);
    this.#revisions.push(revision ?? TOMBSTONE);
    this.#previous.push(newest ?? ordinal);
    this.#jumps.push(newest === undefined ? ordinal : this.#jumpFrom(newest));
    if (revision === undefined) this.#streams.describe(stream, { tombstoned: true });
    else this.#streams.setNewest(stream, ordinal);
    return undefined;
  }

  /** Sets the effect of metadata or a deletion on reads of a stream. */
  describe(stream: string, effect: Partial<Omit<StreamState, "last">>): void {
    this.#streams.describe(stream, effect);
  }

  hasStream(stream: string): boolean {
    return this.#streams.has(stream);
  }

  stateOf(stream: string): StreamState {
    const newest = this.#streams.newest(stream);
    return this.#streams.stateOf(stream, newest === undefined ? undefined : this.#revisions.at(newest));
  }

  positionOf(ordinal: number): number {
    return this.#positions.at(ordinal);
  }

  /** Returns the offset of an event's record in its segment. */
  offsetOf(ordinal: number): number {
    return this.#offsets.at(ordinal);
  }

  /** Returns the revision of an event in its stream; undefined for a tombstone. */
  revisionOf(ordinal: number): number | undefined {
    const revision = this.#revisions.at(ordinal);
    return revision === TOMBSTONE ? undefined : revision;
  }

  /** Returns the index of the segment that stores an event, counted from 0. */
  segmentOf(ordinal: number): number {
    return firstIndex(this.#segmentStarts.length, (at) => (this.#segmentStarts[at] ?? 0) > ordinal) - 1;
  }

  /** Returns the ordinal of the first event of a segment, and of the first event after the segment. */
  ordinalsOf(segment: number): { first: number; end: number } {
    return {
      first: this.#segmentStarts[segment] ?? 0,
      end: this.#segmentStarts[segment + 1] ?? this.events,
    };
  }

  /**
   * Returns an upper bound of the offset at which an event's record ends: the start of the next record of the segment, or
   * the end of the last frame. A frame header may lie between the record and this offset.
   */
  endOffsetOf(ordinal: number): number {
    const segment = this.segmentOf(ordinal);
    const isLast = ordinal + 1 === this.ordinalsOf(segment).end;
    return isLast ? (this.#segmentEnds[segment] ?? 0) : this.offsetOf(ordinal + 1);
  }

  /** Returns the ordinal of the first event at or after a position. Without such an event, returns the number of events. */
  firstFrom(position: number): number {
    return firstIndex(this.events, (at) => this.#positions.at(at) >= position);
  }

  /** Returns the ordinal of an event; undefined if the stream has no such revision. */
  ordinalOf(stream: string, revision: number): number | undefined {
    const newest = this.#streams.newest(stream);
    if (newest === undefined || revision < 0 || revision > this.#revisions.at(newest)) return undefined;
    let ordinal = newest;
    while (this.#revisions.at(ordinal) > revision) {
      const jump = this.#jumps.at(ordinal);
      ordinal = this.#revisions.at(jump) < revision ? this.#previous.at(ordinal) : jump;
    }
    return ordinal;
  }

  /** Returns the ordinals of a range of revisions in order. Includes both ends, which must exist. */
  ordinalsBetween(stream: string, first: number, last: number): number[] {
    const ordinals = new Array<number>(last - first + 1);
    let ordinal = this.ordinalOf(stream, last);
    if (ordinal === undefined)
      throw new RangeError(`The index does not contain revision ${last} of the stream.`);
    for (let at = ordinals.length - 1; at >= 0; at -= 1) {
      ordinals[at] = ordinal;
      ordinal = this.#previous.at(ordinal);
    }
    return ordinals;
  }

  /** Computes the jump pointer for the next event of a stream, given the ordinal of its newest event. */
  #jumpFrom(newest: number): number {
    const jump = this.#jumps.at(newest);
    const further = this.#jumps.at(jump);
    const middle = this.#revisions.at(jump);
    const sameLength = this.#revisions.at(newest) - middle === middle - this.#revisions.at(further);
    return sameLength ? further : newest;
  }
}

/** Returns the first index below `length` at which a monotonic condition holds; otherwise `length`. */
function firstIndex(length: number, holds: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
