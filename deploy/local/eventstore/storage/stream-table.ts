import { NO_STREAM } from "../model/append-rules.ts";
import type { StreamState } from "../model/stream-state.ts";
import { ChunkedArray } from "./chunked-array.ts";

/** Marks a stream that has metadata or a tombstone but no events. */
const NO_EVENT = 0xffff_ffff;

type StreamEffect = Omit<StreamState, "lastRevision">;

const NO_EFFECT: StreamEffect = { isTombstoned: false, isSoftDeleted: false, truncateBefore: 0, maxCount: 0 };

/**
 * Table of all streams by name. Contains each stream's newest event, and the effect of metadata and deletions on its
 * reads.
 */
export class StreamTable {
  readonly #numbers = new Map<string, number>();
  readonly #newest = ChunkedArray.forUint32();
  readonly #effects = new Map<number, StreamEffect>();

  get size(): number {
    return this.#numbers.size;
  }

  has(stream: string): boolean {
    return this.#numbers.has(stream);
  }

  /** Returns the ordinal of the newest event of a stream; undefined if the stream has no events. */
  findNewest(stream: string): number | undefined {
    const number = this.#numbers.get(stream);
    const ordinal = number === undefined ? NO_EVENT : this.#newest.at(number);
    return ordinal === NO_EVENT ? undefined : ordinal;
  }

  setNewest(stream: string, ordinal: number): void {
    this.#newest.set(this.#getOrAddNumber(stream), ordinal);
  }

  /** Sets how metadata or a tombstone affects reads of a stream. */
  applyEffect(stream: string, effect: Partial<StreamEffect>): void {
    const number = this.#getOrAddNumber(stream);
    this.#effects.set(number, { ...(this.#effects.get(number) ?? NO_EFFECT), ...effect });
  }

  /** Returns the state of a stream, given the revision of its newest event. */
  getState(stream: string, lastRevision: number = NO_STREAM): StreamState {
    const number = this.#numbers.get(stream);
    const effect = number === undefined ? undefined : this.#effects.get(number);
    return { lastRevision, ...(effect ?? NO_EFFECT) };
  }

  #getOrAddNumber(stream: string): number {
    const known = this.#numbers.get(stream);
    if (known !== undefined) return known;
    const number = this.#numbers.size;
    this.#numbers.set(stream, number);
    this.#newest.push(NO_EVENT);
    return number;
  }
}
