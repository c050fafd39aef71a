import path from "node:path";
import { expect } from "chai";
import type pg from "pg";
import { seedDemoData } from "../../../../deploy/local/demo-data/demo-data.ts";
import { adoptCurrentLog } from "../../../../projection/cli/adopt-log.ts";
import { rebuildReadModels } from "../../../../projection/cli/rebuild.ts";
import { verifyReadModels } from "../../../../projection/cli/verify.ts";
import { compareTables, type Difference } from "../../../../projection/engine/compare-tables.ts";
import { readModels } from "../../../../projection/read-models/all.ts";
import { createPool } from "../../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { logger } from "../../../projection/engine-world.ts";
import { runInProcess } from "../../../projection/in-process-cli.ts";
import { PERSONAL_DATA_KEYS } from "../../../support/data-keys.ts";
import { createDatabaseWithReadModels } from "../../../support/migrated-database.ts";
import { getTestServers, makeTestRoot, type TestDatabase } from "../../../support/stack.ts";
import { runCopy, startTestLog, type TestLog } from "./copied-logs.ts";

/** Schema with the read models that were built from the source. */
const SOURCE_SCHEMA = "read_model_of_source";

describe("read models of a copied event log", function () {
  this.timeout(300_000);
  let source: TestLog;
  let target: TestLog;
  let database: TestDatabase;
  let pool: pg.Pool;

  before(async () => {
    source = await startTestLog();
    target = await startTestLog();
    database = await createDatabaseWithReadModels();
    const url = database.urls.projection;
    pool = createPool({ url, applicationName: "test", size: 4, statementTimeoutMs: 60_000, logger });
  });

  after(async () => {
    await pool.end();
    await database.drop();
    await source.stop();
    await target.stop();
  });

  it("a database that adopts the copy has the same rows as before, except for log positions", async () => {
    await seedDemoData({
      ...{ portalJwtSecret: "a secret of the portal that is long enough" },
      ...{ portalJwtIssuer: "http://127.0.0.1:8080/auth/v1", portalCookieName: "sb-local-auth-token" },
      ...{ databaseUrl: database.urls.command, personalDataKeys: PERSONAL_DATA_KEYS },
      ...{ eventstoreUrl: source.url, credentialsFile: path.join(makeTestRoot(), "demo-credentials.json") },
      ...{ log: () => undefined, now: Date.parse("2026-05-05T09:10:00Z") },
    });
    const { natsUrl } = await getTestServers();
    const sourceServers = { eventstoreUrl: source.url, databaseUrl: database.urls.projection };
    const targetServers = { ...sourceServers, eventstoreUrl: target.url };
    expect((await runInProcess(sourceServers, (context) => rebuildReadModels(context))).code).to.equal(0);
    await pool.query(`CREATE SCHEMA ${SOURCE_SCHEMA}`);
    for (const { table } of readModels)
      await pool.query(`CREATE TABLE ${SOURCE_SCHEMA}.${table} AS TABLE ${READ_MODEL_SCHEMA}.${table}`);

    // The position of a processed replay request belongs to the former log.
    await pool.query(
      `INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
         event_type, event_stream, event_revision, status, attempt_count, cause_id, correlation_id, created_at,
         updated_at, replay_position)
       SELECT id, id, id, id, 'production', id, 'appointment.created', 'appointment-1', 0, 'failed', 1, id, id, now(),
              now(), 1000000000000
         FROM gen_random_uuid() id`,
    );

    // A real server writes system events of its own, so the positions of the copied events differ.
    await target.client.setStreamMetadata("$server", { anything: 1 });
    const copyResult = await runCopy(source, target);
    expect(copyResult.code, copyResult.errorLines.join("\n")).to.equal(0);
    const refusal = await runInProcess(targetServers, (context) => rebuildReadModels(context)).catch(String);
    expect(refusal).to.contain("The event log is not the one that this database was built from");
    const adoptionResult = await runInProcess(targetServers, (context) =>
      adoptCurrentLog(context, { url: natsUrl }, undefined),
    );
    expect(adoptionResult.code, adoptionResult.stdout).to.equal(0);

    const replayedDeliveries = await pool.query("SELECT 1 FROM webhooks.delivery WHERE replay_position IS NOT NULL");
    expect(replayedDeliveries.rowCount).to.equal(0);

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
    expect(rowCount).to.be.greaterThan(500);
    const unexpectedDifferences = differences.filter(({ columns }) => columns.join() !== "registered_position");
    expect(unexpectedDifferences).to.deep.equal([]);
    expect((await runInProcess(targetServers, (context) => verifyReadModels(context))).stdout).to.match(/: 0 differ$/m);
  });
});
