import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import { buildNodeCommand } from "../../deploy/local/setup/project.ts";
import { ensureReadModels } from "../../projection/prepare-database.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { EMPTY_STREAM } from "../../shared/eventstore/log.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { createMigratedDatabase } from "../support/migrated-database.ts";
import { type OwnLog, startOwnLog } from "../support/own-log.ts";
import { createPlainLog } from "../support/plain-log.ts";
import { createTestDatabase, type TestDatabase } from "../support/stack.ts";
import { createStoredMetadata } from "../support/stored-metadata.ts";
import { runCommandLine } from "./in-process-cli.ts";
import type { CliResult } from "./service-process.ts";

const logger = createLogger("test", "fatal");

describe("the projection command line", () => {
  let ownLog: OwnLog;
  let database: TestDatabase;
  let pool: pg.Pool;
  let env: NodeJS.ProcessEnv;
  const customerId = randomUUID();

  before(async () => {
    ownLog = await startOwnLog();
    const { eventstoreUrl } = ownLog;
    database = await createMigratedDatabase();
    const url = database.urls.projection;
    pool = createPool({ url, applicationName: "test", size: 2, statementTimeoutMs: 5_000, logger });
    await ensureReadModels(pool, readModels);
    env = { ...process.env, EVENTSTORE_URL: eventstoreUrl, DATABASE_URL: url };
    const client = connectEventStore(eventstoreUrl, "test");
    const details = { fullName: "Ana Kos", phone: null, email: null, city: null };
    const metadata = createStoredMetadata();
    const event = {
      type: "CustomerRegistered" as const,
      data: { customerId, clinicId: randomUUID(), ...details },
    };
    await createPlainLog(client).append(`customer-${customerId}`, EMPTY_STREAM, [
      { id: randomUUID(), event, metadata },
    ]);
    await client.dispose();
  });

  after(async () => {
    await pool.end();
    await database.drop();
    await ownLog.stop();
  });

  const runProjection = (command: string, overrides: NodeJS.ProcessEnv = {}) =>
    runCommandLine({ ...env, ...overrides }, command.split(" "));
  /** Runs a command in a separate process, whose output includes log lines. */
  const spawnProjection = (command: string, overrides: NodeJS.ProcessEnv = {}) =>
    new Promise<CliResult>((resolve) => {
      const nodeCommand = buildNodeCommand("projection/cli/main.ts", command.split(" "));
      const child = execFile(
        nodeCommand.command,
        nodeCommand.args,
        { env: { ...env, ...overrides } },
        (_, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
      );
    });

  it("`status` shows the lag, `rebuild` builds the read models, and `verify` finds no differences", async () => {
    const statusBefore = (await runProjection("status")).stdout;
    expect(statusBefore).to.match(/^projectors: .*\n {2}position {5}-1 {2}(about )?\d+ events and [\d.]+ s behind$/m);
    expect(statusBefore).to.match(/^ {2}process {6}no process was ever started$/m);
    const rebuildResult = await runProjection("rebuild");
    expect(rebuildResult.stdout, rebuildResult.stderr).to.match(
      /^Rebuilt in [\d.]+ s\. The new read models are in use from position \d+\.$/m,
    );
    const status = await runProjection("status --json");
    const { followers, readModels: tables, parked } = JSON.parse(status.stdout);
    expect(followers[0]).to.deep.include({ role: "projectors", lag: { events: 0, exact: true, seconds: 0 } });
    expect(BigInt(followers[0].position) > 0n).to.equal(true);
    expect(tables.map(({ table }: { table: string }) => table)).to.deep.equal(readModels.map(({ table }) => table));
    expect(tables.find(({ table }: { table: string }) => table === "customer").rows).to.be.above(0);
    expect(parked).to.be.an("array");
    const verifyResult = await runProjection("verify");
    expect(verifyResult.stdout).to.match(/^\d+ rows compared at position \d+: 0 differ$/m);
    expect([rebuildResult.code, status.code, verifyResult.code]).to.deep.equal([0, 0, 0]);
  });

  it("`verify` reports a changed row and exits with 1", async () => {
    await pool.query(`UPDATE ${READ_MODEL_SCHEMA}.customer SET city = 'x' WHERE customer_id = $1`, [customerId]);
    const { code, stdout } = await runProjection("verify");
    expect(code).to.equal(1);
    expect(stdout).to.contain(`changed customer ${customerId}: city`).and.contain(": 1 differ");
    expect(stdout).not.to.contain("Ana Kos");
  });

  it("the command line prints one line about missing settings and exits with 2", async () => {
    const { code, stderr } = await spawnProjection("status", { EVENTSTORE_URL: undefined, DATABASE_URL: undefined });
    expect(code).to.equal(2);
    expect(stderr.trim()).to.match(/^projection: settings: EVENTSTORE_URL is missing .*; DATABASE_URL is missing .*$/);
  });

  it("commands refuse a database that this release has not prepared, until `migrate` prepares it", async () => {
    const newDatabase = await createTestDatabase();
    const overrides = { DATABASE_URL: newDatabase.urls.projection };
    const refusal = await runProjection("status", overrides);
    expect(refusal.code).to.equal(2);
    expect(refusal.stderr.trim()).to.equal(
      "projection: The database is not prepared for this release. Run `clinic projection migrate` of this release.",
    );
    const firstResult = await spawnProjection("migrate", { ...overrides, EVENTSTORE_URL: undefined });
    expect([firstResult.code, firstResult.stderr]).to.deep.equal([0, ""]);
    expect(firstResult.stdout).to.match(/^Applied 000001-[\s\S]*\nThe database is prepared for this release\.\n/);
    const secondResult = await runProjection("migrate", overrides);
    const unfilledLine = "The read models are not filled yet. The projection service of this release fills them.";
    expect([secondResult.code, secondResult.stdout]).to.deep.equal([
      0,
      `The database is prepared for this release.\n${unfilledLine}\n`,
    ]);
    await newDatabase.drop();
  });

  it("`migrate` prints one line if the database is unavailable", async () => {
    const migrateResult = await spawnProjection("migrate", {
      DATABASE_URL: "postgres://user:hunter2@127.0.0.1:1/clinic",
    });
    expect([migrateResult.code, migrateResult.stdout]).to.deep.equal([4, ""]);
    expect(migrateResult.stderr.trim()).to.match(
      /^projection: The database cannot be migrated\. Check DATABASE_URL\. .*ECONNREFUSED.*$/,
    );
    expect(migrateResult.stderr).not.to.contain("hunter2");
  });

  it("`status` prints one line with the reason for each server if no server accepts connections", async () => {
    const DATABASE_URL = "postgres://user:hunter2@127.0.0.1:1,127.0.0.1:2/clinic?target_session_attrs=read-write";
    const { code, stderr } = await spawnProjection("status", { DATABASE_URL });
    expect(code).to.equal(4);
    expect(stderr.trim()).to.match(
      /^projection: The database is unavailable\. Check DATABASE_URL\. \(.*127\.0\.0\.1:1: .*ECONNREFUSED.*127\.0\.0\.1:2: .*\)$/,
    );
    expect(stderr).not.to.contain("hunter2");
  });

  it("`rebuild` fails without DATABASE_URL, even if EVENTSTORE_URL is set", async () => {
    const { code, stdout, stderr } = await runProjection("rebuild", { DATABASE_URL: undefined });
    expect([code, stdout]).to.deep.equal([2, ""]);
    expect(stderr.trim()).to.match(/^projection: settings: DATABASE_URL is missing .*$/);
  });
});
