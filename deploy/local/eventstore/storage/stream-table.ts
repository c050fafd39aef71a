import { NO_STREAM } from "../model/append-rules.ts";
import type { StreamState } from "../model/stream-state.ts";
import { ChunkedArray } from "./chunked-array.ts";

/** Marks a stream that has metadata or a tombstone but no events. */
const NO_EVENT = 0xffff_ffff;

type StreamEffect = Omit<StreamState, "lastRevision">;

const NO_EFFECT: StreamEffect = {
  isTombstoned: false,
  isSoftDeleted: false,
  truncateBefore: 0,
  maxCount: 0,
  maxAgeSeconds: 0,
};

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
    const streamNumber = this.#streamNumbers.get(stream);
    const ordinal = streamNumber === undefined ? NO_EVENT : this.#newestOrdinals.at(streamNumber);
    return ordinal === NO_EVENT ? undefined : ordinal;
  }

  setNewestOrdinal(stream: string, ordinal: number): void {
    this.#newestOrdinals.set(this.#getOrAddNumber(stream), ordinal);
  }

  /** Sets how metadata or a tombstone affects reads of a stream. */
  applyEffect(stream: string, effect: Partial<StreamEffect>): void {
    const streamNumber = this.#getOrAddNumber(stream);
    this.#effects.set(streamNumber, { ...(this.#effects.get(streamNumber) ?? NO_EFFECT), ...effect });
  }

  /** Returns the state of a stream, given the revision of its newest event. */
  getState(stream: string, lastRevision: number = NO_STREAM): StreamState {
    const streamNumber = this.#streamNumbers.get(stream);
    const effect = streamNumber === undefined ? undefined : this.#effects.get(streamNumber);
    return { lastRevision, ...(effect ?? NO_EFFECT) };
  }

  #getOrAddNumber(stream: string): number {
    const knownNumber = this.#streamNumbers.get(stream);
    if (knownNumber !== undefined) return knownNumber;
    const streamNumber = this.#streamNumbers.size;
    this.#streamNumbers.set(stream, streamNumber);
    this.#newestOrdinals.push(NO_EVENT);
    return streamNumber;
  }
}
