/** One event of the log on its way: published, or left out. */
interface Entry<At> {
  at: At;
  /** Its place in the JetStream stream; 0 where there is nothing to wait for, undefined until the server has it. */
  sequence: number | undefined;
}

/**
 * What the relay has taken from the log and the dispatchers have not yet dealt with, in the log's order. From it
 * follows up to where everything is dealt with: the only place that is safe to resume from.
 *
 * @typeParam At a place in the log
 */
export class InFlightTracker<At> {
  #entries: Entry<At>[] = [];
  #settled: At;

  /** @param settled where the checkpoint stands */
  constructor(settled: At) {
    this.#settled = settled;
  }

  /** Up to here everything is dealt with. */
  get settled(): At {
    return this.#settled;
  }

  /** Messages that are not dealt with. */
  get size(): number {
    return this.#entries.length;
  }

  /** Nothing is to be told up to here. */
  skip(at: At): void {
    const newest = this.#entries.at(-1);
    if (!newest) this.#settled = at;
    else if (newest.sequence === 0) newest.at = at;
    else this.#entries.push({ at, sequence: 0 });
  }

  /** @returns what to call with the message's place in the stream, once the server has it */
  publish(at: At): (sequence: number) => void {
    const entry: Entry<At> = { at, sequence: undefined };
    this.#entries.push(entry);
    return (sequence) => {
      entry.sequence = sequence;
    };
  }

  /** The dispatchers have dealt with every message up to a place in the stream. */
  settle(sequence: number): void {
    const open = this.#entries.findIndex(
      (entry) => entry.sequence === undefined || entry.sequence > sequence,
    );
    const done = this.#entries.splice(0, open < 0 ? this.#entries.length : open).at(-1);
    if (done) this.#settled = done.at;
  }
}
