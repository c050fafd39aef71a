import fs from "node:fs";
import path from "node:path";

/** A log that reaches this size is renamed to `<name>.log.1`, which replaces the one before. Bytes. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_LAST_LINES = 30;
const MAX_LINE_LENGTH = 2_000;

/** Interval between attempts to report lost lines. Milliseconds. */
const REPORT_INTERVAL_MS = 1_000;

const LINE_FEED = 10;

export interface LogFile {
  readonly path: string;
  /**
   * Appends output. Synchronous, so that output does not collect in memory if the disk is slow. Never throws: lines that
   * cannot be written are counted, and one line reports them when the disk has space again.
   */
  write(chunk: Buffer): void;
  /** Returns the last lines of output, for the message of a failed start. */
  lastLines(): string[];
  /** Closes the file. A later write opens it again; until then, lost lines are still counted and reported. */
  close(): void;
}

/**
 * Gives a component's log for appending. The first write creates the file, and a file that is full is rotated. One
 * object serves all processes of a component, so that lost lines are reported even if the process has ended.
 */
export function openLogFile(file: string): LogFile {
  const appender = new Appender(file);
  const lines: string[] = [];
  let rest = "";
  return {
    path: file,
    write(chunk) {
      appender.append(chunk);
      const pieces = (rest + chunk.toString("utf8")).split("\n");
      rest = (pieces.pop() ?? "").slice(0, MAX_LINE_LENGTH);
      lines.push(...pieces.slice(-MAX_LAST_LINES).map((line) => line.slice(0, MAX_LINE_LENGTH)));
      lines.splice(0, Math.max(0, lines.length - MAX_LAST_LINES));
    },
    lastLines: () => [...lines, rest].filter((line) => line.trim() !== ""),
    close: () => appender.close(),
  };
}

/** Appends to a file. If the disk takes no more, it drops and counts lines instead of failing. */
class Appender {
  readonly #file: string;
  #descriptor: number | undefined;
  #bytes = 0;
  #isClosed = false;
  /** True if the last line was written in part, so that the next one must begin with a line feed. */
  #isCut = false;
  #lost = 0;
  #lostSince = new Date(0);
  #reporting: NodeJS.Timeout | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  append(chunk: Buffer): void {
    this.#isClosed = false;
    const unwritten = this.#report() ? this.#tryWrite(chunk) : chunk;
    if (unwritten.length === 0) return;
    if (this.#lost === 0) this.#lostSince = new Date();
    this.#lost += Math.max(1, unwritten.filter((byte) => byte === LINE_FEED).length);
    this.#reporting ??= setInterval(() => this.#reportLater(), REPORT_INTERVAL_MS).unref();
  }

  close(): void {
    this.#isClosed = true;
    this.#report();
    this.#closeFile();
  }

  #reportLater(): void {
    this.#report();
    if (this.#isClosed) this.#closeFile();
  }

  #closeFile(): void {
    const descriptor = this.#descriptor;
    this.#descriptor = undefined;
    try {
      if (descriptor !== undefined) fs.closeSync(descriptor);
    } catch {
      // A network file system may report a full disk only now. How many lines it lost is unknown.
    }
  }

  /** @returns false if lost lines cannot be reported yet */
  #report(): boolean {
    if (this.#lost === 0) return true;
    const since = this.#lostSince.toISOString();
    const line = `--- ${this.#lost} log lines were lost since ${since} because they could not be written\n`;
    const text = Buffer.from(this.#isCut ? `\n${line}` : line);
    if (this.#tryWrite(text).length > 0) return false;
    this.#lost = 0;
    clearInterval(this.#reporting);
    this.#reporting = undefined;
    return true;
  }

  /** @returns the bytes that could not be written */
  #tryWrite(chunk: Buffer): Buffer {
    let rest = chunk;
    try {
      const descriptor = this.#open(chunk.length);
      while (rest.length > 0) {
        const written = fs.writeSync(descriptor, rest);
        this.#bytes += written;
        this.#isCut = rest[written - 1] !== LINE_FEED;
        rest = rest.subarray(written);
      }
    } catch {
      // The process that prints must go on, whatever the reason. The caller counts the lost lines.
    }
    return rest;
  }

  /** Opens the file if it is closed, and starts a new one if the bytes would exceed its limit. */
  #open(more: number): number {
    if (this.#descriptor !== undefined && this.#bytes + more > MAX_BYTES) {
      const full = this.#descriptor;
      this.#descriptor = undefined;
      fs.closeSync(full);
      fs.renameSync(this.#file, `${this.#file}.1`);
    }
    if (this.#descriptor === undefined) {
      fs.mkdirSync(path.dirname(this.#file), { recursive: true });
      this.#descriptor = fs.openSync(this.#file, "a", 0o600);
      this.#bytes = fs.fstatSync(this.#descriptor).size;
      this.#isCut = false;
    }
    return this.#descriptor;
  }
}
