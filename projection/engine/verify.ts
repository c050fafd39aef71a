import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { Logger } from "../../shared/runtime/logger.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { READ_MODEL_SCHEMA, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { requireSameLog } from "../checkpoints/same-log.ts";
import { readSkipped } from "../parking/skipped-events.ts";
import { OTHER_RELEASE } from "../roles/failure.ts";
import { compareTables, type Difference } from "./compare-tables.ts";
import { shapeOf, tablesDdl } from "./ddl.ts";
import { withMaintenance } from "./maintenance.ts";
import { runProjection } from "./projection.ts";
import type { ProjectionProgress } from "./projection-options.ts";
import type { AnyReadModel } from "./read-model.ts";

export interface VerifyOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  models: readonly AnyReadModel[];
  logger: Logger;
  onProgress(progress: ProjectionProgress): void;
  onDifference(difference: Difference): void;
}

export interface Verified {
  position: bigint;
  /** Number of compared rows. */
  rows: number;
  differences: number;
  /** Number of streams that were skipped because the read models skip them. */
  skipped: number;
}

const SCRATCH_SCHEMA = "read_model_verify";

/** Greater than any revision. */
const MAX_REVISION = 2n ** 63n;

/**
 * Compares the read models with the log. It folds the log up to their position into separate tables, and compares both row
 * by row. It compares a snapshot, so live events can continue meanwhile. Events that the read models skipped are skipped
 * here too.
 *
 * @throws {StartError} if another verify or rebuild is running, or the read models belong to another release
 * @throws {DifferentLogError}
 * @throws {ProjectionError} for an event that cannot be processed
 */
export async function verify(options: VerifyOptions, signal: AbortSignal): Promise<Verified> {
  const { pool, models } = options;
  return withMaintenance(pool, async (live) => {
    try {
      // One snapshot for rows and checkpoint.
      await live.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
      const { position, shape } = await readCheckpoint(live, READ_MODEL_SCHEMA);
      if (shape !== shapeOf(models)) {
        throw new StartError(
          `${OTHER_RELEASE}: verify them with that release, or rebuild them with this one.`,
        );
      }
      await requireSameLog(options);
      const streams = await readSkipped(live, READ_MODEL_SCHEMA);
      // Parking events after this snapshot do not matter.
      const parked = { streams, upTo: MAX_REVISION };
      await pool.query(`DROP SCHEMA IF EXISTS ${SCRATCH_SCHEMA} CASCADE`);
      await pool.query(tablesDdl(models, SCRATCH_SCHEMA));
      await runProjection(
        {
          ...options,
          schema: SCRATCH_SCHEMA,
          until: position,
          lazyCommits: true,
          parked: async () => parked,
        },
        signal,
      );
      let [rows, differences] = [0, 0];
      const onDifference = (difference: Difference) => {
        differences += 1;
        options.onDifference(difference);
      };
      for (const model of models) {
        if (signal.aborted) break;
        rows += await compareTables(pool, live, model, [READ_MODEL_SCHEMA, SCRATCH_SCHEMA], onDifference);
      }
      return { position, rows, differences, skipped: streams.size };
    } finally {
      await pool.query(`DROP SCHEMA IF EXISTS ${SCRATCH_SCHEMA} CASCADE`);
    }
  });
}
