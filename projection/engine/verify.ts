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
  /** Compared. */
  rows: number;
  differences: number;
  /** Streams that were passed over, as the read models that serve do. */
  skipped: number;
}

const SCRATCH_SCHEMA = "read_model_verify";

/** Beyond every revision. */
const MAX_REVISION = 2n ** 63n;

/**
 * Compares the read models that serve with what the log says: folds the log up to the position that they reflect into
 * tables of its own, and goes through both, row by row. Live events go on meanwhile: what is compared is the state at
 * one moment. What the read models leave out because it is parked is left out here too.
 *
 * @throws {StartError} if another verify or rebuild runs, or the read models belong to another release
 * @throws {DifferentLog}
 * @throws {ProjectionFailure} for an event that cannot be taken
 */
export async function verify(options: VerifyOptions, signal: AbortSignal): Promise<Verified> {
  const { pool, models } = options;
  return withMaintenance(pool, async (live) => {
    try {
      // One snapshot for all that follows: rows and checkpoint are of the same moment.
      await live.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
      const { position, shape } = await readCheckpoint(live, READ_MODEL_SCHEMA);
      if (shape !== shapeOf(models)) {
        throw new StartError(
          `${OTHER_RELEASE}: verify them with that release, or rebuild them with this one`,
        );
      }
      await requireSameLog(options);
      const streams = await readSkipped(live, READ_MODEL_SCHEMA);
      // What operators decide meanwhile is of no concern.
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
