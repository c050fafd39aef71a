import type { QuarantineRecord } from "./quarantined-events.ts";

interface TrackedEvent<Checkpoint> {
  checkpoint: Checkpoint;
  /**
   * Sequence number of the message in the JetStream stream. 0 for a skipped event, and undefined until the server has
   * stored the message.
   */
  sequence: number | undefined;
  /** Present if the event was quarantined before. */
  quarantineRecord?: QuarantineRecord | undefined;
}

/**
 * Tracks the events between relay and dispatchers, in the order of the log. All messages up to its checkpoint are
 * acknowledged, so the relay can safely resume there.
 * @typeParam Checkpoint checkpoint in the log
 */
export class InFlightTracker<Checkpoint> {
  #entries: TrackedEvent<Checkpoint>[] = [];
  #checkpoint: Checkpoint;

  constructor(checkpoint: Checkpoint) {
    this.#checkpoint = checkpoint;
  }

  get checkpoint(): Checkpoint {
    return this.#checkpoint;
  }

  get size(): number {
    return this.#entries.length;
  }

  /** True if the server has stored the oldest message, but the dispatchers have not acknowledged it. */
  get hasStoredMessage(): boolean {
    return this.#entries[0]?.sequence !== undefined;
  }

  addSkippedEvent(checkpoint: Checkpoint): void {
    const newestEvent = this.#entries.at(-1);
    if (!newestEvent) this.#checkpoint = checkpoint;
    else if (newestEvent.sequence === 0) newestEvent.checkpoint = checkpoint;
    else this.#entries.push({ checkpoint, sequence: 0 });
  }

  /**
   * Adds an event with a message.
   *
   * @param checkpoint undefined for an event that was quarantined before, because the checkpoint has passed it
   * @returns callback to call with the message's sequence number when the server has stored the message
   */
  addPublishedEvent(
    checkpoint: Checkpoint | undefined,
    quarantineRecord?: QuarantineRecord,
  ): (sequence: number) => void {
    const checkpointBefore = this.#entries.at(-1)?.checkpoint ?? this.#checkpoint;
    const trackedEvent: TrackedEvent<Checkpoint> = {
      checkpoint: checkpoint ?? checkpointBefore,
      sequence: undefined,
      quarantineRecord,
    };
    this.#entries.push(trackedEvent);
    return (sequence) => {
      trackedEvent.sequence = sequence;
    };
  }

  /**
   * Records that the dispatchers have acknowledged every message up to a sequence number.
   *
   * @returns records of events that were quarantined before
   */
  acknowledge(sequence: number): QuarantineRecord[] {
    const firstUnackedIndex = this.#entries.findIndex(
      (trackedEvent) => trackedEvent.sequence === undefined || trackedEvent.sequence > sequence,
    );
    const events = this.#entries.splice(0, firstUnackedIndex < 0 ? this.#entries.length : firstUnackedIndex);
    const lastEvent = events.at(-1);
    if (lastEvent) this.#checkpoint = lastEvent.checkpoint;
    return events.flatMap(({ quarantineRecord }) => (quarantineRecord ? [quarantineRecord] : []));
  }
}
