import type { Terminal } from "../../shared/command-line/terminal.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { LogAndDatabase } from "../checkpoints/same-log.ts";
import type { ReadLog } from "../engine/read-log.ts";

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
  signal: AbortSignal;
}
