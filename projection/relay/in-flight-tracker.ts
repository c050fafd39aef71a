/** One event of the log: published, or skipped. */
interface Entry<At> {
  at: At;
  /** Sequence number in the JetStream stream: 0 for a skipped event, undefined until the server has stored the message. */
  sequence: number | undefined;
}

/**
 * Tracks the events that the relay has read and the dispatchers have not acknowledged, in the order of the log. So it knows
 * the position up to which everything is acknowledged, from which the relay can safely resume.
 *
 * @typeParam At checkpoint in the log
 */
export class InFlightTracker<At> {
  #entries: Entry<At>[] = [];
  #settled: At;

  /** @param settled current checkpoint */
  constructor(settled: At) {
    this.#settled = settled;
  }

  /** Checkpoint up to which every message is acknowledged. */
  get settled(): At {
    return this.#settled;
  }

  /** Number of entries that are not acknowledged. */
  get size(): number {
    return this.#entries.length;
  }

  /** Adds an event without a message. */
  skip(at: At): void {
    const newest = this.#entries.at(-1);
    if (!newest) this.#settled = at;
    else if (newest.sequence === 0) newest.at = at;
    else this.#entries.push({ at, sequence: 0 });
  }

  /** Adds a published event. @returns callback for the message's sequence number, once the server has stored it */
  publish(at: At): (sequence: number) => void {
    const entry: Entry<At> = { at, sequence: undefined };
    this.#entries.push(entry);
    return (sequence) => {
      entry.sequence = sequence;
    };
  }

  /** Records that the dispatchers have acknowledged every message up to a sequence number. */
  settle(sequence: number): void {
    const open = this.#entries.findIndex(
      (entry) => entry.sequence === undefined || entry.sequence > sequence,
    );
    const done = this.#entries.splice(0, open < 0 ? this.#entries.length : open).at(-1);
    if (done) this.#settled = done.at;
  }
}
