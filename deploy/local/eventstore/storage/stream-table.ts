import { NO_STREAM } from "../model/append-rules.ts";
import type { StreamState } from "../model/stream-state.ts";
import { ChunkedArray } from "./chunked-array.ts";

/** Marks a stream that has metadata or a tombstone but no events. */
const NO_EVENT = 0xffff_ffff;

type StreamEffect = Omit<StreamState, "lastRevision">;

const NO_EFFECT: StreamEffect = { isTombstoned: false, isSoftDeleted: false, truncateBefore: 0, maxCount: 0 };

/**
 * Table of all streams by name. Contains each stream's newest event, and the effect of metadata and deletions on reads
 * of the stream.
 */
export class StreamTable {
  readonly #streamNumbers = new Map<string, number>();
  readonly #newestOrdinals = ChunkedArray.forUint32();
  readonly #effects = new Map<number, StreamEffect>();

  get size(): number {
    return this.#streamNumbers.size;
  }

  has(stream: string): boolean {
    return this.#streamNumbers.has(stream);
  }

  /** Returns the ordinal of the newest event of a stream; undefined if the stream has no events. */
  findNewestOrdinal(stream: string): number | undefined {
    const number = this.#streamNumbers.get(stream);
    const ordinal = number === undefined ? NO_EVENT : this.#newestOrdinals.at(number);
    return ordinal === NO_EVENT ? undefined : ordinal;
  }

  setNewestOrdinal(stream: string, ordinal: number): void {
    this.#newestOrdinals.set(this.#getOrAddNumber(stream), ordinal);
  }

  /** Sets how metadata or a tombstone affects reads of a stream. */
  applyEffect(stream: string, effect: Partial<StreamEffect>): void {
    const number = this.#getOrAddNumber(stream);
    this.#effects.set(number, { ...(this.#effects.get(number) ?? NO_EFFECT), ...effect });
  }

  /** Returns the state of a stream, given the revision of its newest event. */
  getState(stream: string, lastRevision: number = NO_STREAM): StreamState {
    const number = this.#streamNumbers.get(stream);
    const effect = number === undefined ? undefined : this.#effects.get(number);
    return { lastRevision, ...(effect ?? NO_EFFECT) };
  }

  #getOrAddNumber(stream: string): number {
    const known = this.#streamNumbers.get(stream);
    if (known !== undefined) return known;
    const number = this.#streamNumbers.size;
    this.#streamNumbers.set(stream, number);
    this.#newestOrdinals.push(NO_EVENT);
    return number;
  }
}
