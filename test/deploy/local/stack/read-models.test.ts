import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { prepareReadModels } from "../../../../deploy/local/stack/read-models.ts";
import { requirePreparedDatabase } from "../../../../projection/require-prepared-database.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { PERSONAL_DATA_KEYS } from "../../../support/data-keys.ts";
import { type OwnLog, startOwnLog } from "../../../support/own-log.ts";
import { createReadModelDatabase, type ReadModelDatabase } from "../../../support/read-models.ts";
import { getTestServers } from "../../../support/stack.ts";

describe("read models that an earlier release left in a local stack", () => {
  let database: ReadModelDatabase;
  let ownLog: OwnLog;
  let eventstoreUrl: string;
  const lines: string[] = [];
  const progress = {
    log: (text: string) => void lines.push(text),
    async runStep<Result>(name: string, task: () => Promise<Result>): Promise<Result> {
      lines.push(name);
      return task();
    },
  };

  before(async () => {
    ownLog = await startOwnLog();
    ({ eventstoreUrl } = ownLog);
    database = await createReadModelDatabase();
  });
  after(async () => {
    await database.close();
    await ownLog.stop();
  });
  beforeEach(() => {
    lines.length = 0;
  });

  const prepare = (databaseUrl = database.urls.projection) =>
    prepareReadModels({
      databaseUrl,
      eventstoreUrl,
      personalDataKeys: PERSONAL_DATA_KEYS,
      shouldRebuild: true,
      progress,
    });
  const readColumns = async () => {
    const { rows } = await database.admin.query<{ name: string }>(
      `SELECT column_name AS name FROM information_schema.columns
        WHERE table_schema = '${READ_MODEL_SCHEMA}' AND table_name = 'appointment'`,
    );
    return rows.map(({ name }) => name);
  };
  /** Gives the tables the form of an earlier release, without appointment revisions. */
  const createFormerTables = () =>
    database.admin.query(`
      ALTER TABLE ${READ_MODEL_SCHEMA}.appointment DROP COLUMN revision;
      UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET fingerprint = 'of an earlier release'`);

  it("prepareReadModels rebuilds read models of an earlier release", async () => {
    await createFormerTables();
    await prepare();
    expect(lines[0]).to.equal("read models of this release");
    expect(await readColumns()).to.include("revision");
  });

  it("prepareReadModels does not change read models of this release", async () => {
    await prepare();
    expect(lines).to.deep.equal([]);
  });

  it("prepareReadModels does not change read models of another log, and reports the mismatch", async () => {
    await createFormerTables();
    await database.admin.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = 1, event_id = $1`, [
      randomUUID(),
    ]);
    await prepare();
    expect(lines.join("\n")).to.include("is not the one that this database was built from");
    expect(await readColumns()).not.to.include("revision");
  });

  it("prepareReadModels migrates an empty database and creates the read models, without a rebuild", async () => {
    const name = `empty_${randomUUID().replaceAll("-", "")}`;
    const { adminDatabaseUrl } = await getTestServers();
    const adminClient = new pg.Client({ connectionString: adminDatabaseUrl });
    await adminClient.connect();
    await adminClient.query(`CREATE DATABASE ${name}`);
    const databaseUrl = Object.assign(new URL(adminDatabaseUrl), { pathname: `/${name}` }).href;
    await prepare(databaseUrl);
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
    await requirePreparedDatabase(pool);
    await pool.end();
    await adminClient.query(`DROP DATABASE ${name}`);
    await adminClient.end();
    expect(lines).to.deep.equal([]);
  });
});
