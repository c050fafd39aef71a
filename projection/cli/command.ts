import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { Logger } from "../../shared/runtime/logger.ts";

/** Output of a command. */
export interface Terminal {
  /** Writes a line to standard output. */
  out(line: string): void;
  /** Writes a line to standard error. On a terminal, the line replaces the previous progress line. */
  progress(text: string): void;
}

export interface CommandContext {
  client: EventStoreDBClient;
  pool: pg.Pool;
  logger: Logger;
  terminal: Terminal;
  databaseUrl: string;
  /** Milliseconds since 1970. */
  now: number;
  /** Aborts when the operator interrupts the command. */
  signal: AbortSignal;
}
