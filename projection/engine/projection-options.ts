import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import type { ReadModelCheckpoint } from "../checkpoints/checkpoint.ts";
import type { LogAndDatabase } from "../checkpoints/same-log.ts";
import type { ConfirmedTypes } from "../quarantine/confirmed-types.ts";
import type { QuarantinedStream } from "../quarantine/quarantined-streams.ts";
import type { AwaitedServer } from "../roles/role.ts";
import type { ReadLog } from "./read-log.ts";
import type { AnyReadModel } from "./read-model.ts";

export interface ProjectionProgress {
  position: bigint;
  /**
   * Position up to which the log was read. This position can be past the checkpoint, because events of other programs
   * do not move the checkpoint.
   */
  lastReadPosition: bigint;
  hasCaughtUp: boolean;
  /** Server that the run waits for; null while the run works. */
  waitsFor: AwaitedServer | null;
  lastError: Error | null;
  eventCount: number;
}

export interface ProjectionOptions extends LogAndDatabase {
  dataKeys: DataKeys;
  /** Log reader. If absent, the calling thread reads the log. */
  readLog?: ReadLog | undefined;
  schema: string;
  models: readonly AnyReadModel[];
  logger: Logger;
  /** Position at which the run ends, inclusive. If absent, the run continues with live events. */
  endPosition?: bigint;
  /** True if an operator is adopting this log for a database that was built from another log. */
  adoptsLog?: boolean;
  /**
   * True if no query uses the tables yet. Until the run has caught up, it waits for full batches, because large batches
   * cost less for each event. Postgres may acknowledge a commit before it is flushed to disk. If Postgres crashes, the
   * run applies the events of lost commits again.
   */
  fillsUnusedTables?: boolean;
  onProgress(progress: ProjectionProgress): void;
  /** Called after each commit, with the number of events and the duration of the transaction. */
  onBatch?(eventCount: number, seconds: number): void;
}

export interface ProjectionRun {
  options: ProjectionOptions;
  checkpoint: ReadModelCheckpoint;
  /** Streams whose events are skipped. A stream is added if one of its events cannot be processed. */
  quarantinedStreams: Map<string, QuarantinedStream>;
  confirmedTypes: ConfirmedTypes;
  /** Outcomes of the last events of each type up to the checkpoint, see `Outcomes` in `fuse.ts`. */
  outcomes: Map<string, string>;
  progress: ProjectionProgress;
  report(update: Partial<ProjectionProgress>): void;
  /** Position to which the last transaction tried to move the checkpoint. */
  triedPosition?: bigint;
}
