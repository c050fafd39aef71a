/** A bounded queue between one producer and one consumer. The producer waits while it is full. */
export class BoundedBuffer<T> {
  readonly #capacity: number;
  #items: T[] = [];
  #closed = false;
  #wakeProducer: (() => void) | undefined;
  #wakeConsumer: (() => void) | undefined;

  /** @param capacity maximum number of items */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /**
   * Adds an item as soon as there is room. Drops it after the close.
   *
   * @returns undefined if there is room, because a promise for each of a million items is expensive
   */
  push(item: T): Promise<void> | undefined {
    if (this.#items.length >= this.#capacity && !this.#closed) return this.#pushLater(item);
    this.#add(item);
    return undefined;
  }

  async #pushLater(item: T): Promise<void> {
    while (this.#items.length >= this.#capacity && !this.#closed) {
      await new Promise<void>((resolve) => {
        this.#wakeProducer = resolve;
      });
    }
    this.#add(item);
  }

  #add(item: T): void {
    if (this.#closed) return;
    this.#items.push(item);
    this.#wakeConsumer?.();
  }

  /** Takes up to `most` items in order, and waits for the first. Returns none if the buffer is closed and empty. */
  async take(most: number): Promise<T[]> {
    while (this.#items.length === 0 && !this.#closed) {
      await new Promise<void>((resolve) => {
        this.#wakeConsumer = resolve;
      });
    }
    return this.takeNow(most);
  }

  /** Takes up to `most` available items in order; none if the buffer is empty. */
  takeNow(most: number): T[] {
    const taken = this.#items.splice(0, most);
    this.#wakeProducer?.();
    return taken;
  }

  /** Ends the queue. Remaining items can still be taken. */
  close(): void {
    this.#closed = true;
    this.#wakeProducer?.();
    this.#wakeConsumer?.();
  }
}
