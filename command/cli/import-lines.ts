import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { InputError } from "./failure.ts";

/** One line that is not blank, and its number in the file, from 1. */
export interface Line {
  number: number;
  text: string;
}

/** What is imported; it can be opened more than once. */
export interface Input {
  name: string;
  open(): NodeJS.ReadableStream;
}

/** A line longer than this, in characters, is no command. */
const LONGEST_LINE = 1024 * 1024;

/**
 * The lines of an input, one at a time, so that an input of any size fits.
 *
 * @throws {InputError} where it cannot be read or a line is too long
 */
export async function* linesOf(input: Input): AsyncGenerator<Line> {
  let rest = "";
  let number = 0;
  for await (const chunk of chunksOf(input)) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop() ?? "";
    if (rest.length > LONGEST_LINE) throw new InputError(`line ${number + parts.length + 1} is too long`);
    for (const text of parts) {
      number += 1;
      if (text.trim() !== "") yield { number, text };
    }
  }
  if (rest.trim() !== "") yield { number: number + 1, text: rest };
}

async function* chunksOf({ name, open }: Input): AsyncGenerator<string> {
  try {
    yield* open() as AsyncIterable<string>;
  } catch (error) {
    throw new InputError(`${name} cannot be read: ${(error as Error).message}`);
  }
}

/**
 * Gives the work an input that it can read twice: the named file, or, for `-`, a copy of standard input. The copy has
 * no name, so that nobody else finds it and it is gone with the process, however that ends.
 */
export async function withInput<Result>(
  name: string,
  stdin: NodeJS.ReadableStream,
  work: (input: Input) => Promise<Result>,
): Promise<Result> {
  if (name !== "-") return work({ name, open: () => fs.createReadStream(name, "utf8") });
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "clinic-import-"));
  const copy = path.join(folder, "stdin.ndjson");
  const fd = fs.openSync(copy, "w+", 0o600);
  fs.rmSync(folder, { recursive: true });
  try {
    await pipeline(stdin, fs.createWriteStream(copy, { fd, autoClose: false }));
    const open = () => fs.createReadStream(copy, { fd, start: 0, autoClose: false, encoding: "utf8" });
    return await work({ name: "standard input", open });
  } finally {
    fs.closeSync(fd);
  }
}
