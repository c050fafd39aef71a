import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { Parked } from "../parking/skipped-events.ts";
import type { AwaitedServer } from "../roles/role.ts";
import type { AnyReadModel } from "./read-model.ts";

/** How a run of the projection is doing. */
export interface ProjectionProgress {
  /** Where the checkpoint stands. */
  position: bigint;
  /** The log was read up to here. Events of other programs do not move the checkpoint. */
  seen: bigint;
  caughtUp: boolean;
  /** What it waits for; null while it works. */
  waitsFor: AwaitedServer | null;
  /** What made it wait, the last time that it had to. */
  lastError: Error | null;
  /** Events that it has taken since it started. */
  events: number;
}

export interface ProjectionOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  schema: string;
  models: readonly AnyReadModel[];
  logger: Logger;
  /** The last position to take; it goes on with what comes live where absent. */
  until?: bigint;
  /** The log need not be the one that the database was built from: an operator adopts it. */
  adopting?: boolean;
  /**
   * For tables that nobody reads yet: what a crash of the database's machine takes of the last commits is projected
   * again from the checkpoint that is left.
   */
  lazyCommits?: boolean;
  /** Asked at the start, and again when the log tells of a change. */
  parked(): Promise<Parked>;
  onProgress(progress: ProjectionProgress): void;
  /** Told of each commit: its events, and how long it took. */
  onBatch?(events: number, seconds: number): void;
}

export type Report = (change: Partial<ProjectionProgress>, events?: number) => void;
