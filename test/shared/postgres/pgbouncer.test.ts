import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { pino } from "pino";
import { withClient } from "../../../deploy/local/servers/database-roles.ts";
import { findFreePorts } from "../../../deploy/local/setup/ports.ts";
import { ensurePostgresUser } from "../../../deploy/local/setup/system-user.ts";
import { closeConnection, connectWithoutTimeouts, createPool } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { getTestServers, makeTestRoot, type TestDatabase } from "../../support/stack.ts";

/** Path of the PgBouncer program. The tests are skipped if it is not set. */
const { PGBOUNCER_PATH } = process.env;

interface PgBouncer {
  /** Returns the URL of a database through PgBouncer. */
  buildUrl(databaseUrl: string): string;
  stop(): Promise<void>;
}

async function startPgBouncer(program: string, { urls }: TestDatabase, mode: "session" | "transaction") {
  const folder = makeTestRoot();
  const { gateway: port } = await findFreePorts();
  const users = Object.values(urls).map((url) => new URL(url));
  fs.writeFileSync(
    path.join(folder, "users"),
    users.map(({ username, password }) => `"${username}" "${decodeURIComponent(password)}"\n`).join(""),
  );
  const settings = {
    ...{ listen_addr: "127.0.0.1", listen_port: port, unix_socket_dir: "", pool_mode: mode },
    ...{ auth_type: "scram-sha-256", auth_file: path.join(folder, "users"), default_pool_size: 20 },
    ignore_startup_parameters: "statement_timeout, options",
  };
  const settingLines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
  const databaseLines = `[databases]\n* = host=127.0.0.1 port=${users[0]?.port}\n`;
  fs.writeFileSync(path.join(folder, "ini"), `${databaseLines}[pgbouncer]\n${settingLines.join("")}`);
  const user = await ensurePostgresUser();
  const child = spawn(program, [path.join(folder, "ini")], { ...user, stdio: "ignore" });
  const exitPromise = once(child, "exit");
  const pgBouncer: PgBouncer = {
    buildUrl: (databaseUrl) => Object.assign(new URL(databaseUrl), { port }).href,
    async stop() {
      child.kill("SIGKILL");
      await exitPromise;
    },
  };
  await eventually("PgBouncer", () =>
    withClient(pgBouncer.buildUrl(urls.query), (client) => client.query("SELECT")).then(
      () => true,
      () => false,
    ),
  );
  return pgBouncer;
}

const logger = pino({ enabled: false });
const createTestPool = (url: string) =>
  createPool({ url, applicationName: "test", size: 4, statementTimeoutMs: 5_000, logger });

(PGBOUNCER_PATH ? describe : describe.skip)("PgBouncer", () => {
  let database: TestDatabase;
  let pgBouncer: PgBouncer | undefined;

  before(async () => {
    database = await createDatabaseWithReadModels();
  });
  afterEach(() => pgBouncer?.stop());
  after(() => database.drop());

  const start = async (mode: "session" | "transaction") => {
    pgBouncer = await startPgBouncer(PGBOUNCER_PATH ?? "", database, mode);
    return pgBouncer.buildUrl;
  };

  /** Runs a named statement many times at once. @returns the messages of the errors */
  async function runNamedStatements(url: string): Promise<string[]> {
    const pool = createTestPool(url);
    const statement = {
      name: "position",
      text: `SELECT position FROM ${READ_MODEL_SCHEMA}.checkpoint WHERE $1`,
      values: [true],
    };
    const results = await Promise.allSettled(Array.from({ length: 100 }, () => pool.query(statement)));
    await pool.end();
    return results.flatMap((result) => (result.status === "rejected" ? [String(result.reason)] : []));
  }

  /** Takes the same lock on two connections. @returns for each connection, whether it holds the lock */
  async function takeLockTwice(url: string): Promise<boolean[]> {
    const pool = createTestPool(url);
    const connections = [await connectWithoutTimeouts(pool), await connectWithoutTimeouts(pool)];
    const holders: boolean[] = [];
    for (const connection of connections) {
      const { rows } = await connection.query("SELECT pg_try_advisory_lock(4711) AS held");
      holders.push(rows[0].held);
    }
    for (const connection of connections) await closeConnection(connection);
    await pool.end();
    return holders;
  }

  it("in session mode, named statements and locks work", async () => {
    const buildUrl = await start("session");
    expect(await runNamedStatements(buildUrl(database.urls.query))).to.deep.equal([]);
    expect(await takeLockTwice(buildUrl(database.urls.projection))).to.deep.equal([true, false]);
  });

  it("in session mode, settings of the role replace the ignored settings of the connection", async () => {
    const { adminDatabaseUrl } = await getTestServers();
    const changeRole = (change: string) =>
      withClient(adminDatabaseUrl, (client) =>
        client.query(`ALTER ROLE local_query IN DATABASE ${database.name} ${change}`),
      );
    await changeRole("SET statement_timeout = '2s'");
    const buildUrl = await start("session");
    const pool = createTestPool(buildUrl(database.urls.query));
    const { rows } = await pool.query("SHOW statement_timeout");
    await pool.end();
    await changeRole("RESET ALL");
    expect(rows).to.deep.equal([{ statement_timeout: "2s" }]);
  });

  it("in transaction mode, two connections can hold the same lock", async () => {
    const buildUrl = await start("transaction");
    expect(await takeLockTwice(buildUrl(database.urls.projection))).to.deep.equal([true, true]);
  });
});
