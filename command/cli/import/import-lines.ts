import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { InputError } from "../../../shared/command-line/failure.ts";
import { decodeUtf8 } from "../../../shared/runtime/decode-utf8.ts";

/** A non-blank line, with the line number (from 1) and either the text or the reason why the line is unreadable. */
export type Line = { number: number; text: string } | { number: number; problem: string };

/** Source of an import's lines. The source can be read more than once. */
export interface ImportInput {
  name: string;
  open(): AsyncIterable<Buffer>;
}

/** Maximum length of a line in bytes. A longer line is reported as a problem, and its content is not kept in memory. */
const MAX_LINE_BYTES = 1024 * 1024;

const NEWLINE_BYTE = 0x0a;

/**
 * Reads the lines of an input one at a time, in bounded memory. Accepts `\n` and `\r\n`, a byte order mark at the
 * start, and a last line without a line ending.
 *
 * @throws {InputError} if the input cannot be read
 */
export async function* readLines(input: ImportInput): AsyncGenerator<Line> {
  let number = 1;
  /** Bytes of the current line; empty if the line is too long. */
  let parts: Buffer[] = [];
  let length = 0;
  const add = (bytes: Buffer) => {
    length += bytes.length;
    if (length <= MAX_LINE_BYTES) parts.push(bytes);
    else parts = [];
  };
  const endLine = () => {
    const line = length > MAX_LINE_BYTES ? { number, problem: "is longer than 1 MiB" } : toLine(number, parts);
    number += 1;
    [parts, length] = [[], 0];
    return line;
  };
  for await (const chunk of readChunks(input)) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE_BYTE); end >= 0; end = chunk.indexOf(NEWLINE_BYTE, start)) {
      add(chunk.subarray(start, end));
      const line = endLine();
      if (line) yield line;
      start = end + 1;
    }
    add(chunk.subarray(start));
  }
  const lastLine = endLine();
  if (lastLine) yield lastLine;
}

/** Decodes a line. Returns undefined for a blank line. */
function toLine(number: number, parts: readonly Buffer[]): Line | undefined {
  const text = decodeUtf8(Buffer.concat(parts));
  if (text === undefined) return { number, problem: "is not valid UTF-8" };
  const content = number === 1 ? text.replace(/^\uFEFF/, "") : text;
  if (content.trim() === "") return undefined;
  return content.includes("\0") ? { number, problem: "contains a NUL character" } : { number, text: content };
}

async function* readChunks({ name, open }: ImportInput): AsyncGenerator<Buffer> {
  try {
    yield* open();
  } catch (error) {
    throw new InputError(`${name} cannot be read: ${(error as Error).message}`);
  }
}

/**
 * Calls a function with an input that can be read twice: the named file, or a copy of a pipe or of standard input (`-`).
 *
 * @throws {InputError} if the input cannot be read or copied
 */
export async function withInput<Result>(
  name: string,
  stdin: NodeJS.ReadableStream,
  run: (input: ImportInput) => Promise<Result>,
): Promise<Result> {
  const input: ImportInput =
    name === "-"
      ? { name: "standard input", open: () => stdin as AsyncIterable<Buffer> }
      : { name, open: () => fs.createReadStream(name) };
  // A pipe, such as /dev/stdin, can be read only once.
  if (name !== "-" && (!fs.existsSync(name) || fs.statSync(name).isFile())) return run(input);
  const fd = useTemporaryFolder(openTemporaryFile);
  try {
    for await (const chunk of readChunks(input)) useTemporaryFolder(() => fs.appendFileSync(fd, chunk));
    return await run({ ...input, open: () => fs.createReadStream("", { fd, start: 0, autoClose: false }) });
  } finally {
    fs.closeSync(fd);
  }
}

/** @throws {InputError} if the folder for temporary files is not writable or full */
function useTemporaryFolder<Result>(write: () => Result): Result {
  try {
    return write();
  } catch (error) {
    throw new InputError(
      `the input cannot be copied; set TMPDIR to a writable folder with free space: ${(error as Error).message}`,
    );
  }
}

/**
 * Opens an unlinked temporary file. No other process can open it, and the system deletes it when it is closed.
 *
 * @returns the file descriptor
 */
function openTemporaryFile(): number {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "clinic-import-"));
  const fd = fs.openSync(path.join(folder, "lines"), "w+", 0o600);
  fs.rmSync(folder, { recursive: true });
  return fd;
}
