import { expect } from "chai";
import type pg from "pg";
import { compareTables, type Difference } from "../../../../projection/engine/compare-tables.ts";
import { readModels } from "../../../../projection/read-models/all.ts";
import { createPool } from "../../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { logger, runProjectionCommand } from "../../../projection/engine-world.ts";
import { getTestServers, type TestDatabase } from "../../../support/stack.ts";
import { runCopy, startTestLog, type TestLog } from "./copied-logs.ts";

/** Schema with the read models that were built from the source. */
const SOURCE_SCHEMA = "read_model_of_source";

/** Rows of the read models before and after the database adopted a copy of the log. */
export interface CopyComparison {
  rowCount: number;
  differences: Difference[];
}

/**
 * Builds the read models from a log, copies the log, and lets the database adopt the copy. Fails if a step does.
 *
 * @param database database with empty read models
 */
export async function adoptCopy(source: TestLog, database: TestDatabase): Promise<CopyComparison> {
  const target = await startTestLog();
  const url = database.urls.projection;
  const pool = createPool({ url, applicationName: "test", size: 4, statementTimeoutMs: 60_000, logger });
  try {
    const { natsUrl } = await getTestServers();
    const sourceServers = { eventstoreUrl: source.url, databaseUrl: url };
    const targetServers = { ...sourceServers, eventstoreUrl: target.url };
    expect((await runProjectionCommand(sourceServers, "rebuild")).code).to.equal(0);
    await pool.query(`CREATE SCHEMA ${SOURCE_SCHEMA}`);
    for (const { table } of readModels)
      await pool.query(`CREATE TABLE ${SOURCE_SCHEMA}.${table} AS TABLE ${READ_MODEL_SCHEMA}.${table}`);
    await insertReplayedDelivery(pool);

    // A real server writes system events of its own, so the positions of the copied events differ.
    await target.client.setStreamMetadata("$server", { anything: 1 });
    const copyResult = await runCopy(source, target);
    expect(copyResult.code, copyResult.errorLines.join("\n")).to.equal(0);
    expect((await runProjectionCommand(targetServers, "rebuild")).stderr).to.contain(
      "The event log is not the one that this database was built from",
    );
    const adoptionResult = await runProjectionCommand({ ...targetServers, natsUrl }, "rebuild", "--adopt-log");
    expect(adoptionResult.code, adoptionResult.stderr).to.equal(0);

    const replayedDeliveries = await pool.query("SELECT 1 FROM webhooks.delivery WHERE replay_position IS NOT NULL");
    expect(replayedDeliveries.rowCount).to.equal(0);
    const comparison = await compareReadModels(pool);
    expect((await runProjectionCommand(targetServers, "verify")).stdout).to.match(/: 0 differ$/m);
    return comparison;
  } finally {
    await pool.end();
    await target.stop();
  }
}

/** Inserts a delivery with the position of a processed replay request, which belongs to the former log. */
async function insertReplayedDelivery(pool: pg.Pool): Promise<void> {
  await pool.query(
    `INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
       event_type, event_stream, event_revision, status, attempt_count, cause_id, correlation_id, created_at,
       updated_at, replay_position)
     SELECT id, id, id, id, 'production', id, 'appointment.created', 'appointment-1', 0, 'failed', 1, id, id, now(),
            now(), 1000000000000
       FROM gen_random_uuid() id`,
  );
}

async function compareReadModels(pool: pg.Pool): Promise<CopyComparison> {
  const differences: Difference[] = [];
  let rowCount = 0;
  const connection = await pool.connect();
  await connection.query("BEGIN READ ONLY");
  for (const model of readModels) {
    const schemas = [READ_MODEL_SCHEMA, SOURCE_SCHEMA] as const;
    rowCount += await compareTables(pool, connection, model, schemas, (difference) => differences.push(difference));
  }
  await connection.query("ROLLBACK");
  connection.release();
  return { rowCount, differences };
}
