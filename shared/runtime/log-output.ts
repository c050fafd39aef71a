import fs from "node:fs";

/** Text that waits while the output takes none; further lines are lost. Characters. */
const MAX_WAITING = 1_048_576;

/** A failed write is repeated after this; sooner if a pipe is full, whose reader makes room all the time. Milliseconds. */
const RETRY_AFTER = 500;
const RETRY_FULL_PIPE_AFTER = 10;

/** Outputs with text that is not written yet. */
const unwritten = new Set<LogOutput>();
process.on("exit", () => {
  for (const output of unwritten) output.flush();
});

/**
 * Writes log lines to a file descriptor, in order and without blocking. No failure reaches the caller: while the disk is
 * full or nobody reads, lines wait up to a bound, and lines beyond it are counted. When writing works again, `onLost`
 * reports them once.
 */
export class LogOutput {
  readonly #descriptor: number;
  readonly #onLost: (lines: number, since: Date) => void;
  #waiting = "";
  /** The bytes being written; a part of them may have been written already. */
  #bytes: Buffer | undefined;
  #isWriting = false;
  #retry: NodeJS.Timeout | undefined;
  #lost = 0;
  #lostSince = new Date(0);

  /** @param onLost takes the number of lost lines and the time of the first; it may write a line itself */
  constructor(descriptor: number, onLost: (lines: number, since: Date) => void) {
    this.#descriptor = descriptor;
    this.#onLost = onLost;
  }

  /** Writes one line, which ends in a line feed. */
  write(line: string): void {
    if (this.#waiting.length + line.length > MAX_WAITING) {
      if (this.#lost === 0) this.#lostSince = new Date();
      this.#lost += 1;
      return;
    }
    this.#waiting += line;
    if (!this.#isWriting && !this.#retry) this.#writeNext();
  }

  /** Writes what waits before the process ends, as far as the output takes it. */
  flush(): void {
    // A write under way belongs to another thread: its bytes must not be written twice.
    const rest = this.#isWriting || !this.#bytes ? [] : [this.#bytes];
    try {
      for (let bytes = Buffer.concat([...rest, Buffer.from(this.#waiting)]); bytes.length > 0; )
        bytes = bytes.subarray(fs.writeSync(this.#descriptor, bytes));
    } catch {
      // The output takes nothing, and the process ends: nobody is left to tell.
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
