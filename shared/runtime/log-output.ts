import fs from "node:fs";

/** Maximum length of waiting text; further lines are lost. Characters. */
const MAX_WAITING = 1_048_576;

/**
 * Delay before a failed write is repeated; shorter for a full pipe, whose reader frees space continuously.
 * Milliseconds.
 */
const RETRY_AFTER = 500;
const RETRY_FULL_PIPE_AFTER = 10;

/** Outputs with unwritten text. */
const unwritten = new Set<LogOutput>();
process.on("exit", () => {
  for (const output of unwritten) output.flush();
});

/**
 * Writes log lines to a file descriptor, in order and without blocking. Failures never reach the caller: while the
 * disk is full or nobody reads, lines wait up to a limit, and lines beyond it are counted as lost. When writing works
 * again, `onLost` reports them once.
 */
export class LogOutput {
  readonly #descriptor: number;
  readonly #onLost: (lines: number, since: Date) => void;
  #waiting = "";
  /** The bytes being written, some of which may already be written. */
  #bytes: Buffer | undefined;
  #isWriting = false;
  #retry: NodeJS.Timeout | undefined;
  #lost = 0;
  #lostSince = new Date(0);

  /** @param onLost receives the number of lost lines and the time of the first; it may write a line */
  constructor(descriptor: number, onLost: (lines: number, since: Date) => void) {
    this.#descriptor = descriptor;
    this.#onLost = onLost;
  }

  /** Writes one line, which must end with a line feed. */
  write(line: string): void {
    if (this.#waiting.length + line.length > MAX_WAITING) {
      if (this.#lost === 0) this.#lostSince = new Date();
      this.#lost += 1;
      return;
    }
    this.#waiting += line;
    if (!this.#isWriting && !this.#retry) this.#writeNext();
  }

  /** Writes the waiting text before the process ends, as far as possible. */
  flush(): void {
    // A write in progress runs in another thread; its bytes must not be written twice.
    const rest = this.#isWriting || !this.#bytes ? [] : [this.#bytes];
    try {
      for (let bytes = Buffer.concat([...rest, Buffer.from(this.#waiting)]); bytes.length > 0; )
        bytes = bytes.subarray(fs.writeSync(this.#descriptor, bytes));
    } catch {
      // The process is ending, so the failure cannot be reported.
    }
  }

  #writeNext(): void {
    if (!this.#bytes) {
      if (this.#waiting === "") {
        this.#reportLost();
        return;
      }
      this.#bytes = Buffer.from(this.#waiting);
      this.#waiting = "";
      unwritten.add(this);
    }
    const bytes = this.#bytes;
    this.#isWriting = true;
    fs.write(this.#descriptor, bytes, (error, written) => {
      this.#isWriting = false;
      if (error) {
        this.#writeLater(error.code === "EAGAIN" ? RETRY_FULL_PIPE_AFTER : RETRY_AFTER);
        return;
      }
      this.#bytes = written < bytes.length ? bytes.subarray(written) : undefined;
      this.#writeNext();
    });
  }

  #writeLater(delay: number): void {
    const retry = () => {
      this.#retry = undefined;
      this.#writeNext();
    };
    this.#retry = setTimeout(retry, delay).unref();
  }

  #reportLost(): void {
    unwritten.delete(this);
    if (this.#lost === 0) return;
    const lost = this.#lost;
    this.#lost = 0;
    this.#onLost(lost, this.#lostSince);
  }
}
