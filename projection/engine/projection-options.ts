import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { Parked } from "../parking/skipped-events.ts";
import type { AwaitedServer } from "../roles/role.ts";
import type { AnyReadModel } from "./read-model.ts";

/** Progress of a projection run. */
export interface ProjectionProgress {
  /** Position of the checkpoint. */
  position: bigint;
  /** Position up to which the log was read. Events of other programs do not move the checkpoint. */
  seen: bigint;
  caughtUp: boolean;
  /** Server that the run waits for; null while it works. */
  waitsFor: AwaitedServer | null;
  /** Error that caused the last wait. */
  lastError: Error | null;
  /** Events processed since the start. */
  events: number;
}

export interface ProjectionOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  schema: string;
  models: readonly AnyReadModel[];
  logger: Logger;
  /** Last position to process. If absent, the run continues with live events. */
  until?: bigint;
  /** True if an operator adopts a log that the database was not built from. */
  adopting?: boolean;
  /**
   * If true, a commit may be acknowledged before it is flushed to disk. Only for tables that are not in use yet: after a
   * crash of the database, lost commits are projected again from the remaining checkpoint.
   */
  lazyCommits?: boolean;
  /** Reads the parked streams. Called at the start, and again after an operator parks or resumes a stream. */
  parked(): Promise<Parked>;
  onProgress(progress: ProjectionProgress): void;
  /** Called after each commit, with its number of events and its duration. */
  onBatch?(events: number, seconds: number): void;
}

export type Report = (change: Partial<ProjectionProgress>, events?: number) => void;
