/** Opens the database that holds the log, and says in one line why it cannot. */
import { ClassicLevel } from "classic-level";
import { FORMAT_KEY } from "./keys.ts";

export type Database = ClassicLevel<Buffer, Buffer>;

/** Raised with the layout of keys and values, so that a newer log is never misread. */
const FORMAT = "1";

const MEBIBYTE = 1024 * 1024;

/** The log cannot start; the message is one line for the person who started it. */
export class LogStartError extends Error {
  override readonly name = "LogStartError";
}

/**
 * Opens or creates the database in a directory.
 * @throws LogStartError where another process has it, it is damaged, of another format, or out of reach.
 */
export async function openDatabase(dir: string): Promise<Database> {
  const database: Database = new ClassicLevel(dir, {
    keyEncoding: "buffer",
    valueEncoding: "buffer",
    cacheSize: 32 * MEBIBYTE,
    writeBufferSize: 16 * MEBIBYTE,
  });
  try {
    await database.open();
  } catch (error) {
    throw new LogStartError(whyNotOpen(dir, error), { cause: error });
  }
  await checkFormat(database, dir);
  return database;
}

async function checkFormat(database: Database, dir: string): Promise<void> {
  const format = await database.get(FORMAT_KEY);
  if (format === undefined) {
    await database.put(FORMAT_KEY, Buffer.from(FORMAT), { sync: true });
  } else if (format.toString() !== FORMAT) {
    await database.close();
    throw new LogStartError(
      `The log in ${dir} has format ${format.toString()}; this program reads ${FORMAT}.`,
    );
  }
}

function whyNotOpen(dir: string, error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  if (code === "LEVEL_LOCKED") return `The log in ${dir} is in use by another process.`;
  if (code === "LEVEL_CORRUPTION") return `The log in ${dir} is damaged.`;
  const reason = cause instanceof Error ? cause.message : String(cause);
  return `The log in ${dir} cannot be opened: ${reason.replaceAll("\n", " ")}`;
}
