import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import { requireSameLog } from "../checkpoints/same-log.ts";
import { type QuarantinedStream, readQuarantinedStreams } from "../quarantine/quarantined-streams.ts";
import { OTHER_RELEASE } from "../roles/role.ts";
import { compareTables, type Difference } from "./compare-tables.ts";
import { buildTablesDdl, computeFingerprint } from "./ddl.ts";
import { withMaintenanceLock } from "./maintenance.ts";
import { runProjection } from "./projection.ts";
import type { ProjectionOptions } from "./projection-options.ts";

export interface VerifyOptions
  extends Pick<ProjectionOptions, "client" | "pool" | "dataKeys" | "readLog" | "models" | "logger" | "onProgress"> {
  onDifference(difference: Difference): void;
}

interface VerifyResult {
  position: bigint;
  rows: number;
  differenceCount: number;
  /** Streams with events that the read models lack. These events were not compared. */
  quarantinedStreams: ReadonlyMap<string, QuarantinedStream>;
}

export const SCRATCH_SCHEMA = `${READ_MODEL_SCHEMA}_verify`;

const MAX_REVISION = 2n ** 63n;

/**
 * Compares the read models with the log. Folds the log up to the position of the read models into separate tables, and
 * compares these tables with the read models row by row. The comparison reads a snapshot, so live events do not affect
 * it. Events that the read models skipped are skipped here too.
 *
 * @throws {StartError} if another verify or rebuild is running, or the read models belong to another release
 * @throws {DifferentLogError}
 * @throws {ProjectionError} for an event that cannot be processed
 */
export async function verify(options: VerifyOptions, signal: AbortSignal): Promise<VerifyResult> {
  const { pool, models } = options;
  return withMaintenanceLock(pool, async (liveConnection) => {
    try {
      // Rows and checkpoint must come from one snapshot.
      await liveConnection.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
      const { position, fingerprint } = await readCheckpoint(liveConnection, READ_MODEL_SCHEMA);
      if (fingerprint !== computeFingerprint(models)) {
        throw new StartError(`${OTHER_RELEASE}: verify them with that release, or rebuild them with this release.`);
      }
      await requireSameLog(options);
      const quarantinedStreams = await readQuarantinedStreams(liveConnection, READ_MODEL_SCHEMA);
      // No quarantine event has a revision above MAX_REVISION, so the run never reloads the decisions.
      const decisions = { streams: quarantinedStreams, confirmedTypes: new Map(), lastRevision: MAX_REVISION };
      await pool.query(`DROP SCHEMA IF EXISTS ${SCRATCH_SCHEMA} CASCADE`);
      await pool.query(buildTablesDdl(models, SCRATCH_SCHEMA));
      await runProjection(
        {
          ...options,
          schema: SCRATCH_SCHEMA,
          endPosition: position,
          fillsUnusedTables: true,
          loadDecisions: async () => decisions,
        },
        signal,
      );
      let [rows, differenceCount] = [0, 0];
      const onDifference = (difference: Difference) => {
        differenceCount += 1;
        options.onDifference(difference);
      };
      for (const model of models) {
        if (signal.aborted) break;
        rows += await compareTables(pool, liveConnection, model, [READ_MODEL_SCHEMA, SCRATCH_SCHEMA], onDifference);
      }
      return { position, rows, differenceCount, quarantinedStreams };
    } finally {
      await pool.query(`DROP SCHEMA IF EXISTS ${SCRATCH_SCHEMA} CASCADE`);
    }
  });
}
