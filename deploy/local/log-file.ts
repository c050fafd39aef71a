import fs from "node:fs";
import path from "node:path";

/** A log grows to this many bytes, then becomes `<name>.log.1`; one older part is kept. */
const MAX_BYTES = 16 * 1024 * 1024;
const LAST_LINES = 30;
const MAX_LINE = 2_000;

export interface LogFile {
  readonly path: string;
  /** Appends a piece of output. Synchronous, so that nothing piles up in memory when the disk is slow. */
  write(chunk: Buffer): void;
  /** The last lines written through this handle, for the message of a start that failed. */
  lastLines(): string[];
  close(): void;
}

/** Opens a process's log for appending, made on first use; bounded by rotation. */
export function openLogFile(file: string): LogFile {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  let descriptor: number | undefined = fs.openSync(file, "a", 0o600);
  let bytes = fs.fstatSync(descriptor).size;
  const lines: string[] = [];
  let rest = "";
  const rotate = (open: number) => {
    fs.closeSync(open);
    fs.renameSync(file, `${file}.1`);
    bytes = 0;
    return fs.openSync(file, "a", 0o600);
  };
  return {
    path: file,
    write(chunk) {
      if (descriptor === undefined) return;
      if (bytes + chunk.length > MAX_BYTES) descriptor = rotate(descriptor);
      fs.writeSync(descriptor, chunk);
      bytes += chunk.length;
      const pieces = (rest + chunk.toString("utf8")).split("\n");
      rest = (pieces.pop() ?? "").slice(0, MAX_LINE);
      lines.push(...pieces.slice(-LAST_LINES).map((line) => line.slice(0, MAX_LINE)));
      lines.splice(0, Math.max(0, lines.length - LAST_LINES));
    },
    lastLines: () => [...lines, rest].filter((line) => line.trim() !== ""),
    close() {
      if (descriptor !== undefined) fs.closeSync(descriptor);
      descriptor = undefined;
    },
  };
}
