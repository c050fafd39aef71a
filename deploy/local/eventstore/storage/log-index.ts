/**
 * Index of the log, in memory only: where each event is stored, and the events of each stream.
 *
 * An event takes 24 bytes. It knows the event before it in its stream and one further back (a skew-binary jump
 * pointer), so any revision is found in O(log n) steps without a list per stream. Nothing here is trusted for
 * content: a reader compares each record with the place it was looking for.
 */

import type { StreamState } from "../model/stream-state.ts";
import { Column } from "./column.ts";
import type { StoredRecord } from "./segment-format.ts";
import { StreamTable } from "./stream-table.ts";

/** Stored as the revision of a tombstone, which has no place among the revisions of its stream. */
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

  /** Number of events, which is also the ordinal of the next one. */
  get events(): number {
    return this.#positions.length;
  }

  get streams(): number {
    return this.#streams.size;
  }

  get segments(): number {
    return this.#segmentStarts.length;
  }

  /** Position of the last event; 0 in an empty log. */
  get position(): number {
    return this.events === 0 ? 0 : this.#positions.at(this.events - 1);
  }

  /** Begins the next segment: events added from here on are stored there. */
  startSegment(): void {
    this.#segmentStarts.push(this.events);
    this.#segmentEnds.push(0);
  }

  /** Records where the frames of the last segment end. */
  setSegmentEnd(offset: number): void {
    this.#segmentEnds[this.#segmentEnds.length - 1] = offset;
  }

  /** Adds the next event. Returns a sentence instead if ordinal, position or revision do not follow. */
  add(stream: string, record: StoredRecord, offset: number): string | undefined {
    const { ordinal, position, revision } = record;
    if (ordinal !== this.events) return `Event ${ordinal} follows, event ${this.events} was expected.`;
    if (position <= this.position) return `Position ${position} follows position ${this.position}.`;
    const newest = this.#streams.newest(stream);
    const expected = newest === undefined ? 0 : this.#revisions.at(newest) + 1;
    if (revision !== undefined && revision !== expected) {
      return `Revision ${revision} of a stream follows, revision ${expected} was expected.`;
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

  /** Records what metadata say about reading a stream. */
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

  /** Offset of an event's record in its segment. */
  offsetOf(ordinal: number): number {
    return this.#offsets.at(ordinal);
  }

  /** Revision of an event in its stream; undefined for a tombstone. */
  revisionOf(ordinal: number): number | undefined {
    const revision = this.#revisions.at(ordinal);
    return revision === TOMBSTONE ? undefined : revision;
  }

  /** Index of the segment that stores an event, from 0. */
  segmentOf(ordinal: number): number {
    return firstIndex(this.#segmentStarts.length, (at) => (this.#segmentStarts[at] ?? 0) > ordinal) - 1;
  }

  /** Ordinal of the first event of a segment, and of the first one after it. */
  ordinalsOf(segment: number): { first: number; end: number } {
    return {
      first: this.#segmentStarts[segment] ?? 0,
      end: this.#segmentStarts[segment + 1] ?? this.events,
    };
  }

  /**
   * An offset at or after the end of an event's record: the start of the next one, or the end of the last frame.
   * The header of a frame may lie between.
   */
  endOffsetOf(ordinal: number): number {
    const segment = this.segmentOf(ordinal);
    const isLast = ordinal + 1 === this.ordinalsOf(segment).end;
    return isLast ? (this.#segmentEnds[segment] ?? 0) : this.offsetOf(ordinal + 1);
  }

  /** Ordinal of the first event at a position or beyond. */
  firstFrom(position: number): number {
    return firstIndex(this.events, (at) => this.#positions.at(at) >= position);
  }

  /** Ordinal of an event; undefined if the stream has no such revision. */
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

  /** Ordinals of the revisions of a stream between two, both included and stored, in order. */
  ordinalsBetween(stream: string, first: number, last: number): number[] {
    const ordinals = new Array<number>(last - first + 1);
    let ordinal = this.ordinalOf(stream, last);
    if (ordinal === undefined) throw new RangeError(`The index has no revision ${last} of a stream.`);
    for (let at = ordinals.length - 1; at >= 0; at -= 1) {
      ordinals[at] = ordinal;
      ordinal = this.#previous.at(ordinal);
    }
    return ordinals;
  }

  /** Where the jump pointer of the next event of a stream leads, given the newest one. */
  #jumpFrom(newest: number): number {
    const jump = this.#jumps.at(newest);
    const further = this.#jumps.at(jump);
    const middle = this.#revisions.at(jump);
    const sameLength = this.#revisions.at(newest) - middle === middle - this.#revisions.at(further);
    return sameLength ? further : newest;
  }
}

/** The first index below `length` for which a monotonic condition holds; `length` if there is none. */
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
