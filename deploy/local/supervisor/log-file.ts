import fs from "node:fs";
import path from "node:path";

/** A log grows to this many bytes, then becomes `<name>.log.1`; one older part is kept. */
const MAX_BYTES = 16 * 1024 * 1024;
const LAST_LINES = 30;
const MAX_LINE_LENGTH = 2_000;

/** While lines are lost, the report of them is tried this often. Milliseconds. */
const REPORT_INTERVAL_MS = 1_000;

const LINE_FEED = 10;

export interface LogFile {
  readonly path: string;
  /**
   * Appends a piece of output. Synchronous, so that nothing piles up in memory when the disk is slow. It never throws:
   * lines that cannot be written are counted, and one line reports them when the disk has space again.
   */
  write(chunk: Buffer): void;
  /** The last lines of output, for the message of a start that failed. */
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
      lines.push(...pieces.slice(-LAST_LINES).map((line) => line.slice(0, MAX_LINE_LENGTH)));
      lines.splice(0, Math.max(0, lines.length - LAST_LINES));
    },
    lastLines: () => [...lines, rest].filter((line) => line.trim() !== ""),
    close: () => appender.close(),
  };
}

/** Appends to a file and outlives a disk that takes nothing, at the price of lines that it counts. */
class Appender {
  readonly #file: string;
  #descriptor: number | undefined;
  #bytes = 0;
  #isClosed = false;
  /** Whether a line was cut short, so that the next one must begin with a line feed. */
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

  /** @returns false while lost lines cannot be reported */
  #report(): boolean {
    if (this.#lost === 0) return true;
    const since = this.#lostSince.toISOString();
    const line = `--- ${this.#lost} log lines were lost since ${since}: they could not be written\n`;
    const text = Buffer.from(this.#isCut ? `\n${line}` : line);
    if (this.#tryWrite(text).length > 0) return false;
    this.#lost = 0;
    clearInterval(this.#reporting);
    this.#reporting = undefined;
    return true;
  }

  /** @returns what could not be written */
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
      // Whatever the reason, the process whose output this is must go on; the caller counts what is lost.
    }
    return rest;
  }

  /** Opens the file where it is not open, and begins a new one where it has no room for so many bytes. */
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
