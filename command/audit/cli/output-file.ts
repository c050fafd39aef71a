import fs from "node:fs";
import { pipeline } from "node:stream/promises";
import { InputError } from "../../../shared/command-line/failure.ts";

/** @throws {InputError} if the output file that the option `--out` names already exists */
export function requireNewFile(file: string): void {
  if (fs.existsSync(file)) throw new InputError(`--out ${file} already exists; choose another file`);
}

/**
 * Writes lines to a temporary file, and gives the file its final name when it is complete. Never overwrites an existing
 * file with this name. Returns the number of lines.
 */
export async function writeAtomically(
  file: string,
  lines: AsyncIterable<string> | Iterable<string | Uint8Array>,
): Promise<number> {
  const partFile = `${file}.part`;
  const fd = openPartFile(file, partFile);
  let lineCount = 0;
  const countLines = async function* () {
    for await (const line of lines) {
      lineCount += 1;
      yield line;
    }
  };
  try {
    await pipeline(countLines, fs.createWriteStream(partFile, { fd, flush: true }));
    // Unlike `rename`, `link` fails if another process has created the file in the meantime.
    fs.linkSync(partFile, file);
    return lineCount;
  } catch (error) {
    throw toInputError(file, error);
  } finally {
    fs.rmSync(partFile, { force: true });
  }
}

function openPartFile(file: string, partFile: string): number {
  try {
    fs.rmSync(partFile, { force: true });
    return fs.openSync(partFile, "wx", 0o600);
  } catch (error) {
    throw toInputError(file, error);
  }
}

function toInputError(file: string, error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  return code?.startsWith("E") ? new InputError(`--out ${file} cannot be written: ${message}`) : error;
}
