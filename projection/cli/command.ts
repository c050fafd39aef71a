import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { LogAndDatabase } from "../checkpoints/same-log.ts";
import type { ReadLog } from "../engine/read-log.ts";

/** Output of a command. */
export interface Terminal {
  /** Writes a line to standard output. */
  out(line: string): void;
  /** Writes a line to standard error. On a terminal, the line replaces the previous progress line. */
  showProgress(text: string): void;
}

export interface CommandContext extends LogAndDatabase {
  /** Keys of personal data. The first use reads PERSONAL_DATA_KEYS. */
  dataKeys: DataKeys;
  /** Reads the log for commands that read all of it. By default, the calling thread reads it. */
  readLog?: ReadLog;
  logger: Logger;
  terminal: Terminal;
  databaseUrl: string;
  /** Milliseconds since 1970. */
  now: number;
  /** Aborts when the operator interrupts the command. */
  signal: AbortSignal;
}
