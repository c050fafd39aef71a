import type pg from "pg";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import { DifferentLogError } from "../../../projection/checkpoints/same-log.ts";
import { createProgressReporter } from "../../../projection/cli/fill-progress.ts";
import { computeFingerprint } from "../../../projection/engine/ddl.ts";
import { listOtherReadModels, pruneReadModels } from "../../../projection/engine/prune.ts";
import { rebuild } from "../../../projection/engine/rebuild.ts";
import { prepareDatabase } from "../../../projection/prepare-database.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { readLogEnd } from "../../../shared/eventstore/log-end.ts";
import { createUncachedDataKeys } from "../../../shared/personal-data/create-data-keys.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createLogger, type Logger } from "../../../shared/runtime/logger.ts";
import type { Progress } from "../setup/progress.ts";
import { SetupError } from "../setup/setup-error.ts";

const STATEMENT_TIMEOUT_MS = 30_000;

export interface ReadModelOptions {
  databaseUrl: string;
  eventstoreUrl: string;
  /** Value of PERSONAL_DATA_KEYS. */
  personalDataKeys: string;
  /** If true, read models that an earlier release created are rebuilt. */
  shouldRebuild: boolean;
  progress: Progress;
  /** Aborted to interrupt a rebuild. The next start continues the rebuild. */
  signal?: AbortSignal | undefined;
}

/**
 * Prepares the database for this release, and rebuilds read models that an earlier release created. In production,
 * operators follow the steps in docs/operating.md. If the database belongs to a
 * different log, the read models are not rebuilt, and the projection service reports the mismatch.
 *
 * @throws {SetupError} if the migrations fail
 */
export async function prepareReadModels(options: ReadModelOptions): Promise<void> {
  const { databaseUrl, shouldRebuild, progress } = options;
  const logger = createLogger("read models", "silent"); // progress is reported through `progress` instead
  const pool = createPool({
    url: databaseUrl,
    applicationName: "read models",
    size: 4,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    logger,
  });
  try {
    await prepareDatabase(databaseUrl, pool, logger).catch((error) => {
      throw new SetupError(`The database cannot be migrated: ${error.message || error.code}`);
    });
    if (!shouldRebuild || !(await isRebuildNeeded(pool))) return;
    await progress.runStep("read models of this release", () => rebuildReadModels(options, pool, logger));
  } finally {
    await pool.end();
  }
}

async function rebuildReadModels(
  { eventstoreUrl, personalDataKeys, progress, signal = new AbortController().signal }: ReadModelOptions,
  pool: pg.Pool,
  logger: Logger,
): Promise<void> {
  const client = connectEventStore(eventstoreUrl, "read models");
  try {
    const onProgress = createProgressReporter(
      { showProgress: (text) => progress.log(`  … ${text}`) },
      await readLogEnd(client),
    );
    const dataKeys = createUncachedDataKeys(
      pool,
      readConfig(["PERSONAL_DATA_KEYS"], { PERSONAL_DATA_KEYS: personalDataKeys }),
    );
    await rebuild({ client, pool, dataKeys, models: readModels, logger, onProgress }, signal);
    if (!signal.aborted) await pruneReadModels(pool, signal);
  } catch (error) {
    if (!(error instanceof DifferentLogError)) throw error;
    progress.log(error.message);
  } finally {
    await client.dispose();
  }
}

/** Returns true if the database contains read models of another release. */
async function isRebuildNeeded(pool: pg.Pool): Promise<boolean> {
  const { fingerprint } = await readCheckpoint(pool, READ_MODEL_SCHEMA);
  if (fingerprint !== computeFingerprint(readModels)) return true;
  return (await listOtherReadModels(pool)).length > 0;
}
