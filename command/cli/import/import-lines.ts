import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { InputError } from "../framework/failure.ts";

/** A line that is not blank: its number in the file, from 1, and its text, or the reason why it cannot be read. */
export type Line = { number: number; text: string } | { number: number; problem: string };

/** Content of an import, which can be read more than once. */
export interface Input {
  name: string;
  open(): AsyncIterable<Buffer>;
}

/** Maximum length of a line in bytes. Longer lines are not kept in memory. */
const MAX_LINE_BYTES = 1024 * 1024;

const NEWLINE = 0x0a;

/**
 * Reads the lines of an input one at a time, in bounded memory. Accepts `\n` and `\r\n`, a byte order mark at the
 * start, and a last line without a line ending.
 *
 * @throws {InputError} if the input cannot be read
 */
export async function* linesOf(input: Input): AsyncGenerator<Line> {
  let number = 1;
  let line = emptyLine();
  for await (const chunk of chunksOf(input)) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      add(line, chunk.subarray(start, end));
      const read = toLine(number, line);
      if (read) yield read;
      number += 1;
      line = emptyLine();
      start = end + 1;
    }
    add(line, chunk.subarray(start));
  }
  const last = toLine(number, line);
  if (last) yield last;
}

/** The bytes of a line that is being read; empty if the line is too long. */
interface Bytes {
  parts: Buffer[];
  length: number;
}

const emptyLine = (): Bytes => ({ parts: [], length: 0 });

function add(line: Bytes, part: Buffer): void {
  line.length += part.length;
  if (line.length <= MAX_LINE_BYTES) line.parts.push(part);
  else line.parts = [];
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @returns undefined for a blank line */
function toLine(number: number, { parts, length }: Bytes): Line | undefined {
  if (length > MAX_LINE_BYTES) return { number, problem: "is longer than 1 MiB" };
  const text = decoded(Buffer.concat(parts));
  if (text === undefined) return { number, problem: "is not valid UTF-8" };
  const content = number === 1 ? text.replace(/^\uFEFF/, "") : text;
  if (content.trim() === "") return undefined;
  return content.includes("\0") ? { number, problem: "contains a NUL character" } : { number, text: content };
}

function decoded(bytes: Buffer): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_ENCODING_INVALID_ENCODED_DATA") return undefined;
    throw error;
  }
}

async function* chunksOf({ name, open }: Input): AsyncGenerator<Buffer> {
  try {
    yield* open();
  } catch (error) {
    throw new InputError(`${name} cannot be read: ${(error as Error).message}`);
  }
}

/**
 * Runs work on an input that can be read twice: the named file or, for `-`, a copy of standard input. The copy is an
 * unlinked file: no other process can open it, and it disappears when this process ends.
 */
export async function withInput<Result>(
  name: string,
  stdin: NodeJS.ReadableStream,
  work: (input: Input) => Promise<Result>,
): Promise<Result> {
  if (name !== "-") return work({ name, open: () => fs.createReadStream(name) });
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "clinic-import-"));
  const copy = path.join(folder, "stdin.ndjson");
  const fd = fs.openSync(copy, "w+", 0o600);
  fs.rmSync(folder, { recursive: true });
  try {
    await pipeline(stdin, fs.createWriteStream(copy, { fd, autoClose: false }));
    const open = () => fs.createReadStream(copy, { fd, start: 0, autoClose: false });
    return await work({ name: "standard input", open });
  } finally {
    fs.closeSync(fd);
  }
}
