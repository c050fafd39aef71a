import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { Logger } from "../../shared/runtime/logger.ts";

/** Where a command speaks. */
export interface Terminal {
  out(line: string): void;
  /** A line that takes the place of the one before, where the terminal can do that. */
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
  /** Aborts when the operator interrupts. */
  signal: AbortSignal;
}
