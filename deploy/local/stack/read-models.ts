import { READ_MODEL_SCHEMA } from "../../../projection/checkpoints/checkpoint.ts";
import { readLogEnd } from "../../../projection/checkpoints/log-end.ts";
import { DifferentLogError } from "../../../projection/checkpoints/same-log.ts";
import { createProgressReporter } from "../../../projection/cli/fill-progress.ts";
import { computeFingerprint } from "../../../projection/engine/ddl.ts";
import { ensureReadModels } from "../../../projection/engine/ensure-schema.ts";
import { rebuild } from "../../../projection/engine/rebuild.ts";
import { migrate } from "../../../projection/migrate.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { withClient } from "../servers/database-roles.ts";
import type { Progress } from "../setup/progress.ts";

const STATEMENT_TIMEOUT_MS = 30_000;

/**
 * Rebuilds read models that an earlier release created in the local database. In production, an operator instead runs
 * `projection rebuild` while the earlier release still runs. If the database belongs to a different log, the read
 * models are not rebuilt, and the projection service reports the mismatch.
 *
 * @param signal aborted to interrupt a rebuild; the next start continues the rebuild
 */
export async function upgradeReadModels(
  { databaseUrl, eventstoreUrl }: { databaseUrl: string; eventstoreUrl: string },
  progress: Progress,
  signal = new AbortController().signal,
): Promise<void> {
  const fingerprint = await readStoredFingerprint(databaseUrl);
  if (fingerprint === undefined || fingerprint === computeFingerprint(readModels)) return;
  const logger = createLogger("read models", "silent"); // progress is reported through `progress` instead
  const pool = createPool({
    url: databaseUrl,
    applicationName: "read models",
    size: 4,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    logger,
  });
  const client = connectEventStore(eventstoreUrl, "read models");
  try {
    await progress.runStep("read models of this release", async () => {
      await migrate(databaseUrl, logger);
      await ensureReadModels(pool, readModels);
      const onProgress = createProgressReporter(
        { showProgress: (text) => progress.log(`  … ${text}`) },
        await readLogEnd(client),
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

/** Returns the fingerprint of the read models in the database; undefined if the database has no read models. */
async function readStoredFingerprint(databaseUrl: string): Promise<string | undefined> {
  const table = `${READ_MODEL_SCHEMA}.checkpoint`;
  return withClient(databaseUrl, async (client) => {
    const tableResult = await client.query("SELECT to_regclass($1) AS name", [table]);
    if (tableResult.rows[0]?.name === null) return undefined;
    const checkpointResult = await client.query<{ shape: string }>(`SELECT shape FROM ${table}`);
    return checkpointResult.rows[0]?.shape;
  });
}
