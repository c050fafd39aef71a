/** A bounded queue between producers and one consumer. The producers wait while the queue is full. */
export class BoundedBuffer<T> {
  readonly #capacity: number;
  #minimum = 1;
  #items: T[] = [];
  #isClosed = false;
  #waitingProducers: (() => void)[] = [];
  #wakeConsumer: (() => void) | undefined;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get isFull(): boolean {
    return this.#items.length >= this.#capacity;
  }

  /**
   * Sets the number of items that `take` waits for. The default is 1.
   *
   * @param itemCount at most the capacity
   */
  setMinimum(itemCount: number): void {
    this.#minimum = itemCount;
    this.#wakeConsumerIfReady();
  }

  /**
   * Adds an item, and waits while the queue is full. Drops the item if the queue is closed.
   *
   * @returns undefined if the item was added immediately, because creating a promise for every item is expensive
   */
  push(item: T): Promise<void> | undefined {
    if (this.isFull && !this.#isClosed) return this.#pushLater(item);
    this.#add(item);
    return undefined;
  }

  async #pushLater(item: T): Promise<void> {
    while (this.isFull && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#waitingProducers.push(resolve);
      });
    }
    this.#add(item);
  }

  #add(item: T): void {
    if (this.#isClosed) return;
    this.#items.push(item);
    this.#wakeConsumerIfReady();
  }

  #wakeProducers(): void {
    for (const wake of this.#waitingProducers.splice(0)) wake();
  }

  #wakeConsumerIfReady(): void {
    if (this.#items.length >= this.#minimum) this.#wakeConsumer?.();
  }

  /**
   * Removes and returns up to `maxItems` items in order. Waits until the queue has the minimum number of items, or is
   * closed. Returns an empty array if the queue is closed and empty.
   */
  async take(maxItems: number): Promise<T[]> {
    while (this.#items.length < this.#minimum && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#wakeConsumer = resolve;
      });
    }
    const takenItems = this.#items.splice(0, maxItems);
    this.#wakeProducers();
    return takenItems;
  }

  /** Closes the queue. The consumer can still take the remaining items. */
  close(): void {
    this.#isClosed = true;
    this.#wakeProducers();
    this.#wakeConsumer?.();
  }
}
