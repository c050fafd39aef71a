import pg from "pg";
import { READ_MODEL_SCHEMA } from "../../../projection/checkpoints/checkpoint.ts";
import { logEnd } from "../../../projection/checkpoints/log-end.ts";
import { DifferentLogError } from "../../../projection/checkpoints/same-log.ts";
import { fillProgress } from "../../../projection/cli/fill-progress.ts";
import { shapeOf } from "../../../projection/engine/ddl.ts";
import { ensureReadModels } from "../../../projection/engine/ensure-schema.ts";
import { rebuild } from "../../../projection/engine/rebuild.ts";
import { migrate } from "../../../projection/migrate.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import type { Progress } from "../setup/progress.ts";

const STATEMENT_TIMEOUT_MS = 30_000;

/** The progress lines of the start replace the log lines of a rebuild. */
const LOG_LEVEL = "silent";

/**
 * Rebuilds read models that an earlier release created in the local database. In production, an operator runs
 * `projection rebuild` while the earlier release still serves. If the database belongs to another log, nothing is rebuilt
 * and the projection service reports the mismatch.
 *
 * @param signal aborted to interrupt a rebuild; the next start continues it
 */
export async function upgradeReadModels(
  { databaseUrl, eventstoreUrl }: { databaseUrl: string; eventstoreUrl: string },
  progress: Progress,
  signal = new AbortController().signal,
): Promise<void> {
  const shape = await readStoredFingerprint(databaseUrl);
  if (shape === undefined || shape === shapeOf(readModels)) return;
  const logger = createLogger("read models", LOG_LEVEL);
  const pool = createPool({
    url: databaseUrl,
    applicationName: "read models",
    size: 4,
    statementTimeout: STATEMENT_TIMEOUT_MS,
    logger,
  });
  const client = connectEventStore(eventstoreUrl, "read models");
  try {
    await progress.step("read models of this release", async () => {
      await migrate(databaseUrl, logger);
      await ensureReadModels(pool, readModels);
      const onProgress = fillProgress(
        { progress: (text) => progress.log(`  … ${text}`) },
        await logEnd(client),
      );
      await rebuild({ client, pool, models: readModels, logger, onProgress }, signal);
    });
  } catch (error) {
    if (!(error instanceof DifferentLogError)) throw error;
    progress.log(error.message);
  } finally {
    await pool.end();
    await client.dispose();
  }
}

/** Returns the fingerprint of the read models in the database; undefined if there are none. */
async function readStoredFingerprint(databaseUrl: string): Promise<string | undefined> {
  const connection = new pg.Client({ connectionString: databaseUrl });
  await connection.connect();
  try {
    const table = `${READ_MODEL_SCHEMA}.checkpoint`;
    const { rows } = await connection.query<{ found: boolean }>(
      "SELECT to_regclass($1) IS NOT NULL AS found",
      [table],
    );
    if (!rows[0]?.found) return undefined;
    const { rows: checkpoints } = await connection.query<{ shape: string }>(`SELECT shape FROM ${table}`);
    return checkpoints[0]?.shape;
  } finally {
    await connection.end();
  }
}
