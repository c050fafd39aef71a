/** Maximum number of lines in progress, including lines that wait for an earlier line. */
const MAX_LINES = 256;

/**
 * Maximum total length of the lines in progress, in characters. A longer line is applied alone. The limit bounds the
 * memory, because a line can be as long as 1 MiB.
 */
const MAX_CHARACTERS = 8 * 1024 * 1024;

/** Lines that have started but not ended. */
export class LinesInProgress {
  readonly #lines = new Set<Promise<void>>();
  #characters = 0;
  #resume = () => {};

  /** Waits until a line of this length may start. Must not be called again before it has resolved. */
  async waitForRoom(characterCount: number): Promise<void> {
    while (
      this.#lines.size >= MAX_LINES ||
      (this.#lines.size > 0 && this.#characters + characterCount > MAX_CHARACTERS)
    )
      await new Promise<void>((resolve) => {
        this.#resume = resolve;
      });
  }

  /** Adds a line. Its completion must not fail. */
  add(characterCount: number, completion: Promise<void>): void {
    this.#characters += characterCount;
    const trackedCompletion = completion.then(() => {
      this.#lines.delete(trackedCompletion);
      this.#characters -= characterCount;
      this.#resume();
    });
    this.#lines.add(trackedCompletion);
  }

  /** Waits until all lines have ended. */
  async waitForEnd(): Promise<void> {
    await Promise.all(this.#lines);
  }
}
