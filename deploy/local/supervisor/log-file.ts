import fs from "node:fs";
import path from "node:path";

/**
 * Maximum size of a log file in bytes. A full file is renamed to `<name>.log.1`, which replaces any earlier file of
 * that name.
 */
const MAX_FILE_BYTES = 16 * 1024 * 1024;

/** Limits on the last lines of output, which are kept in memory for the error message of a failed start. */
const MAX_LAST_LINES = 30;
const MAX_LINE_LENGTH = 2_000;

/** Interval in milliseconds between attempts to report the number of lost lines. */
const LOSS_REPORT_INTERVAL_MS = 1_000;

const LINE_FEED = 10;

export interface LogFile {
  readonly path: string;
  /**
   * Appends output. The write is synchronous, so that output does not accumulate in memory if the disk is slow. Never
   * throws. Counts the lines that it cannot write, and reports their number in the log after writes work again.
   */
  write(chunk: Buffer): void;
  /** Returns the last lines of output. */
  getLastLines(): string[];
  /** Closes the file. A later write opens the file again. Lost lines are reported even if the file is closed. */
  close(): void;
}

/**
 * Returns the log of a component. The first write creates the file. All processes of a component use the same log
 * object, so that lost lines are reported even after a process has ended.
 */
export function openLogFile(file: string): LogFile {
  const appender = new Appender(file);
  const lines: string[] = [];
  let incompleteLine = "";
  return {
    path: file,
    write(chunk) {
      appender.append(chunk);
      const newLines = (incompleteLine + chunk.toString("utf8")).split("\n");
      incompleteLine = (newLines.pop() ?? "").slice(0, MAX_LINE_LENGTH);
      lines.push(...newLines.slice(-MAX_LAST_LINES).map((line) => line.slice(0, MAX_LINE_LENGTH)));
      lines.splice(0, Math.max(0, lines.length - MAX_LAST_LINES));
    },
    getLastLines: () => [...lines, incompleteLine].filter((line) => line.trim() !== ""),
    close: () => appender.close(),
  };
}

/** Appends to a file. If a write fails, drops and counts the lines instead of throwing an error. */
class Appender {
  readonly #file: string;
  #descriptor: number | undefined;
  #bytes = 0;
  #isClosed = false;
  /** True if the last write did not end with a line feed. The report of lost lines then starts with one. */
  #endsMidLine = false;
  #lostLines = 0;
  #lostSince = new Date(0);
  #reportTimer: NodeJS.Timeout | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  append(chunk: Buffer): void {
    this.#isClosed = false;
    const unwrittenBytes = this.#reportLostLines() ? this.#tryWrite(chunk) : chunk;
    if (unwrittenBytes.length === 0) return;
    if (this.#lostLines === 0) this.#lostSince = new Date();
    this.#lostLines += Math.max(1, unwrittenBytes.filter((byte) => byte === LINE_FEED).length);
    this.#reportTimer ??= setInterval(() => this.#retryReport(), LOSS_REPORT_INTERVAL_MS).unref();
  }

  close(): void {
    this.#isClosed = true;
    this.#retryReport();
  }

  #retryReport(): void {
    this.#reportLostLines();
    if (this.#isClosed) this.#closeFile();
  }

  #closeFile(): void {
    const descriptor = this.#descriptor;
    this.#descriptor = undefined;
    try {
      if (descriptor !== undefined) fs.closeSync(descriptor);
    } catch {
      // A network file system may report a full disk only on close. The number of lost lines is then unknown.
    }
  }

  /** Writes the number of lost lines to the file. Returns false if this write also fails. */
  #reportLostLines(): boolean {
    if (this.#lostLines === 0) return true;
    const lostSince = this.#lostSince.toISOString();
    const line = `--- ${this.#lostLines} log lines were lost since ${lostSince} because they could not be written\n`;
    const reportBytes = Buffer.from(this.#endsMidLine ? `\n${line}` : line);
    if (this.#tryWrite(reportBytes).length > 0) return false;
    this.#lostLines = 0;
    clearInterval(this.#reportTimer);
    this.#reportTimer = undefined;
    return true;
  }

  /** Returns the part of the chunk that could not be written. */
  #tryWrite(chunk: Buffer): Buffer {
    let remainingBytes = chunk;
    try {
      const descriptor = this.#ensureOpen(chunk.length);
      while (remainingBytes.length > 0) {
        const writtenByteCount = fs.writeSync(descriptor, remainingBytes);
        this.#bytes += writtenByteCount;
        this.#endsMidLine = remainingBytes[writtenByteCount - 1] !== LINE_FEED;
        remainingBytes = remainingBytes.subarray(writtenByteCount);
      }
    } catch {
      // An error here must not end the supervisor. The caller counts the lost lines.
    }
    return remainingBytes;
  }

  /** Opens the file if it is closed. If the next bytes would exceed the maximum size, starts a new file. */
  #ensureOpen(nextByteCount: number): number {
    if (this.#descriptor !== undefined && this.#bytes + nextByteCount > MAX_FILE_BYTES) {
      const fullDescriptor = this.#descriptor;
      this.#descriptor = undefined;
      fs.closeSync(fullDescriptor);
      fs.renameSync(this.#file, `${this.#file}.1`);
    }
    if (this.#descriptor === undefined) {
      fs.mkdirSync(path.dirname(this.#file), { recursive: true });
      this.#descriptor = fs.openSync(this.#file, "a", 0o600);
      this.#bytes = fs.fstatSync(this.#descriptor).size;
      this.#endsMidLine = false;
    }
    return this.#descriptor;
  }
}
