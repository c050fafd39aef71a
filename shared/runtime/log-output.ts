import fs from "node:fs";

/** Maximum length of the text that waits to be written. Lines that exceed this limit are lost. */
const MAX_WAITING_CHARACTERS = 1_048_576;

/** Minimum interval between two writes. Lines of this time are written together. */
const WRITE_INTERVAL_MS = 10;

/**
 * Delay before a failed write is repeated. The delay is shorter for a full pipe, because the pipe's reader frees space
 * continuously.
 */
const RETRY_DELAY_MS = 500;
const FULL_PIPE_RETRY_DELAY_MS = 10;

const unwrittenOutputs = new Set<LogOutput>();
process.on("exit", () => {
  for (const output of unwrittenOutputs) output.flush();
});

/**
 * Writes log lines to a file descriptor, in order and without blocking. Failures never reach the caller. While the
 * disk or the pipe is full, lines wait up to a limit, and further lines are counted as lost. When writing succeeds
 * again, `onLost` receives the number of lost lines once.
 */
export class LogOutput {
  readonly #descriptor: number;
  readonly #onLost: (lineCount: number, since: Date) => void;
  #pendingText = "";
  /** Bytes that are being written, or that will be written again after a failure. */
  #unwrittenBytes: Buffer | undefined;
  #isWriting = false;
  #timer: NodeJS.Timeout | undefined;
  #lostLines = 0;
  #lostSince = new Date(0);

  /**
   * @param onLost receives the number of lost lines and the time of the first lost line. The callback may write a line
   */
  constructor(descriptor: number, onLost: (lineCount: number, since: Date) => void) {
    this.#descriptor = descriptor;
    this.#onLost = onLost;
  }

  /** Writes one line of text, which must end with a line feed. */
  write(line: string): void {
    if (this.#pendingText.length + line.length > MAX_WAITING_CHARACTERS) {
      if (this.#lostLines === 0) this.#lostSince = new Date();
      this.#lostLines += 1;
      return;
    }
    this.#pendingText += line;
    if (!this.#isWriting && !this.#timer) this.#writeNext();
  }

  /** Writes as much of the waiting text as possible, synchronously, before the process ends. */
  flush(): void {
    // A write in progress continues in another thread, so its bytes must not be written a second time.
    const previousBytes = this.#isWriting || !this.#unwrittenBytes ? [] : [this.#unwrittenBytes];
    try {
      for (let bytes = Buffer.concat([...previousBytes, Buffer.from(this.#pendingText)]); bytes.length > 0; )
        bytes = bytes.subarray(fs.writeSync(this.#descriptor, bytes));
    } catch {
      // The process is ending, so the failure cannot be reported.
    }
  }

  #writeNext(): void {
    if (!this.#unwrittenBytes) {
      if (this.#pendingText === "") {
        this.#reportLost();
        return;
      }
      this.#unwrittenBytes = Buffer.from(this.#pendingText);
      this.#pendingText = "";
      unwrittenOutputs.add(this);
    }
    const bytes = this.#unwrittenBytes;
    this.#isWriting = true;
    fs.write(this.#descriptor, bytes, (error, writtenLength) => {
      this.#isWriting = false;
      if (error) {
        this.#writeLater(error.code === "EAGAIN" ? FULL_PIPE_RETRY_DELAY_MS : RETRY_DELAY_MS);
        return;
      }
      this.#unwrittenBytes = writtenLength < bytes.length ? bytes.subarray(writtenLength) : undefined;
      if (this.#unwrittenBytes) this.#writeNext();
      else this.#writeLater(WRITE_INTERVAL_MS);
    });
  }

  #writeLater(delayMs: number): void {
    const write = () => {
      this.#timer = undefined;
      this.#writeNext();
    };
    this.#timer = setTimeout(write, delayMs).unref();
  }

  #reportLost(): void {
    unwrittenOutputs.delete(this);
    if (this.#lostLines === 0) return;
    const lostLineCount = this.#lostLines;
    this.#lostLines = 0;
    this.#onLost(lostLineCount, this.#lostSince);
  }
}
