/** A queue between one producer and one consumer that makes the producer wait when it is full. */
export class BoundedBuffer<T> {
  readonly #capacity: number;
  #items: T[] = [];
  #closed = false;
  #wakeProducer: (() => void) | undefined;
  #wakeConsumer: (() => void) | undefined;

  /** @param capacity how many items it holds at the most */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /**
   * Adds an item, as soon as there is room. After the close it is dropped.
   *
   * @returns nothing to wait for where there is room at once: a promise for each of a million items costs
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

  /** Takes what is there, in order, up to a number; waits for the first. Nothing where it is closed and empty. */
  async take(most: number): Promise<T[]> {
    while (this.#items.length === 0 && !this.#closed) {
      await new Promise<void>((resolve) => {
        this.#wakeConsumer = resolve;
      });
    }
    return this.takeNow(most);
  }

  /** Takes what is there, in order, up to a number; nothing where it is empty. */
  takeNow(most: number): T[] {
    const taken = this.#items.splice(0, most);
    this.#wakeProducer?.();
    return taken;
  }

  /** No more items; what is there can still be taken. */
  close(): void {
    this.#closed = true;
    this.#wakeProducer?.();
    this.#wakeConsumer?.();
  }
}
