import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import type pg from "pg";
import { pino } from "pino";
import { withClient } from "../../../deploy/local/servers/database-roles.ts";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { pruneReadModels } from "../../../projection/engine/prune.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { holdReadModelLock } from "../../../shared/postgres/read-model-lock.ts";
import { listenForPositions } from "../../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { StartError } from "../../../shared/runtime/run-service.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { findPgBouncer, type PgBouncer, type PoolMode, startPgBouncer } from "../../support/pgbouncer.ts";
import { queryEnvironment } from "../../support/query-environment.ts";
import { listLockHolders, startReadModelUsers } from "../../support/read-model-users.ts";
import { useResource } from "../../support/resources.ts";
import { getTestServers } from "../../support/stack.ts";

const program = findPgBouncer();
const OTHER_SCHEMA = "read_model_of_other_release";
const SHARED_SESSION_TEXT =
  "The connection pooler at DATABASE_URL uses transaction or statement mode, in which locks are lost. Use session mode, or connect to Postgres directly.";

const logger = pino({ enabled: false });
const createTestPool = (url: string) =>
  createPool({ url, applicationName: "test", size: 4, statementTimeoutMs: 5_000, logger });

/** Returns true if PgBouncer is older than 1.21. In transaction mode, it then refuses named statements. */
const refusesNamedStatements = () => {
  const [, minor] = /PgBouncer 1\.(\d+)/.exec(execFileSync(program ?? "", ["--version"], { encoding: "utf8" })) ?? [];
  return Number(minor) < 21;
};

(program ? describe : describe.skip)("PgBouncer", () => {
  const database = useResource(createDatabaseWithReadModels);
  let directPool: pg.Pool;
  let pgBouncer: PgBouncer | undefined;

  before(async () => {
    directPool = createTestPool(database.urls.projection);
  });
  after(async () => {
    await directPool.end();
  });

  const start = async (mode: PoolMode) => {
    pgBouncer = await startPgBouncer(program ?? "", database.urls, mode);
    return pgBouncer.urls;
  };
  const awaitHolders = (names: readonly string[]) =>
    eventually(`locks of ${names.join() || "nobody"}`, async () => {
      const holders = await listLockHolders(directPool);
      return holders.map(({ name }) => name.replace(/ \S+:\d+/, "")).join() === names.join();
    });
  /** Runs prune. @returns the names of the dropped schemas, or the error */
  const prune = async (pool: pg.Pool) => {
    const result = await pruneReadModels(pool, new AbortController().signal, 0).catch((error: unknown) => error);
    return result instanceof StartError ? result.message : result;
  };

  /** Runs a named statement many times concurrently. @returns the error messages */
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

  it("in session mode, named statements work", async () => {
    expect(await runNamedStatements((await start("session")).query)).to.deep.equal([]);
  });

  it("in session mode, settings of the role replace the ignored settings of the connection", async () => {
    const { adminDatabaseUrl } = await getTestServers();
    const changeRole = (change: string) =>
      withClient(adminDatabaseUrl, (client) =>
        client.query(`ALTER ROLE local_query IN DATABASE ${database.name} ${change}`),
      );
    await changeRole("SET statement_timeout = '2s'");
    const pool = createTestPool((await start("session")).query);
    const { rows } = await pool.query("SHOW statement_timeout");
    await pool.end();
    await changeRole("RESET ALL");
    expect(rows).to.deep.equal([{ statement_timeout: "2s" }]);
  });

  it("in session mode, processes are notified of the read models' position", async () => {
    const positions: (bigint | undefined)[] = [];
    const options = { databaseUrl: (await start("session")).command, applicationName: "test", logger };
    const stopListening = listenForPositions(options, (position) => void positions.push(position));
    await eventually("the current position", () => positions.at(-1) !== undefined);
    await directPool.query(`SELECT pg_notify($1, '7')`, [READ_MODEL_SCHEMA]);
    await eventually("the notification", () => positions.includes(7n));
    await stopListening();
  });

  it("in session mode, the services lock their read models until they stop", async () => {
    const services = Object.values(await startReadModelUsers(await start("session")));
    try {
      await awaitHolders(["audit", "projection webhooks", "query-api"]);
    } finally {
      await Promise.all(services.map((service) => service.stop()));
    }
    await awaitHolders([]);
  });

  it("in session mode, prune is refused while a process holds its lock", async () => {
    await directPool.query(`CREATE SCHEMA ${OTHER_SCHEMA} CREATE TABLE checkpoint (position bigint)`);
    const { query: databaseUrl } = await start("session");
    const lock = holdReadModelLock({ databaseUrl, schema: OTHER_SCHEMA, service: "query-api", logger });
    await awaitHolders(["query-api"]);
    expect(await prune(directPool)).to.match(
      /^Processes of other releases still use their read models: query-api \S+:\d+ \(read_model_of_other_release\)\. /,
    );
    await lock.release();
    await awaitHolders([]);
    expect(await prune(directPool)).to.deep.equal([OTHER_SCHEMA]);
  });

  it("in session mode, the lock of a killed process is released", async () => {
    const { query: DATABASE_URL } = await start("session");
    const { command, args } = buildNodeCommand("query-api/main.ts");
    const env = { ...process.env, ...queryEnvironment, DATABASE_URL };
    const child = spawn(command, args, { cwd: PROJECT_FOLDER, env, stdio: "ignore" });
    const exitPromise = once(child, "exit");
    try {
      await awaitHolders(["query-api"]);
    } finally {
      child.kill("SIGKILL");
      await exitPromise;
    }
    await awaitHolders([]);
  });

  for (const mode of ["transaction", "statement"] as const)
    it(`in ${mode} mode, the services that lock read models fail, and hold no lock`, async () => {
      const services = Object.values(await startReadModelUsers(await start(mode)));
      try {
        for (const { failure } of services) expect((await failure)?.message).to.equal(SHARED_SESSION_TEXT);
        expect(await listLockHolders(directPool)).to.deep.equal([]);
      } finally {
        await Promise.all(services.map((service) => service.stop()));
      }
    });

  it("in transaction mode, `query-api` ends with one line", async () => {
    const { query: DATABASE_URL } = await start("transaction");
    const { command, args } = buildNodeCommand("query-api/main.ts");
    const env = { ...process.env, ...queryEnvironment, DATABASE_URL };
    const child = spawn(command, args, { cwd: PROJECT_FOLDER, env, stdio: ["ignore", "ignore", "pipe"] });
    const [[code], output] = await Promise.all([once(child, "exit"), text(child.stderr)]);
    expect({ code, output }).to.deep.equal({ code: 1, output: `query-api: ${SHARED_SESSION_TEXT}\n` });
  });

  it("in transaction mode, the commands that lock the database are refused while other clients are busy", async () => {
    const { projection: url } = await start("transaction");
    const [pool, busyPool] = [createTestPool(url), createTestPool(url)];
    const controller = new AbortController();
    const keepBusy = async () => {
      while (!controller.signal.aborted) await busyPool.query("SELECT pg_sleep(random() / 500)");
    };
    const busyPromise = Promise.all([keepBusy(), keepBusy(), keepBusy()]);
    try {
      for (let run = 0; run < 20; run += 1) expect(await prune(pool)).to.equal(SHARED_SESSION_TEXT);
    } finally {
      controller.abort();
      await busyPromise;
      await Promise.all([pool.end(), busyPool.end()]);
    }
  });

  it("in transaction mode, named statements fail", async function () {
    if (!refusesNamedStatements()) this.skip();
    const errors = await runNamedStatements((await start("transaction")).query);
    expect(errors.join()).to.contain("prepared statement");
  });
});
