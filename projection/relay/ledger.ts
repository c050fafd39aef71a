/** One event of the log on its way: published, or left out. */
interface Entry {
  position: bigint;
  /** Its place in the JetStream stream; 0 where there is nothing to wait for, undefined until the server has it. */
  sequence: number | undefined;
}

/**
 * What the relay has taken from the log and the dispatchers have not yet dealt with, in the log's order. From it
 * follows up to where everything is dealt with: the only place that is safe to resume from.
 */
export class Ledger {
  #entries: Entry[] = [];
  #settled: bigint;
  #last: bigint;

  /** @param settled where the checkpoint stands */
  constructor(settled: bigint) {
    this.#settled = settled;
    this.#last = settled;
  }

  /** Up to here everything is dealt with. */
  get settled(): bigint {
    return this.#settled;
  }

  /** How far the log has been taken. */
  get last(): bigint {
    return this.#last;
  }

  /** Messages that are not dealt with. */
  get size(): number {
    return this.#entries.length;
  }

  /** Nothing is to be told up to here. */
  skip(position: bigint): void {
    this.#last = position;
    const newest = this.#entries.at(-1);
    if (!newest) this.#settled = position;
    else if (newest.sequence === 0) newest.position = position;
    else this.#entries.push({ position, sequence: 0 });
  }

  /** @returns what to call with the message's place in the stream, once the server has it */
  publish(position: bigint): (sequence: number) => void {
    this.#last = position;
    const entry: Entry = { position, sequence: undefined };
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
    if (done) this.#settled = done.position;
  }
}
