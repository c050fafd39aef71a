import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { expect } from "chai";
import pg from "pg";
import { pino } from "pino";
import { createLongLivedClient } from "../../../shared/postgres/long-lived-connection.ts";
import { awaitPipelined, createPool } from "../../../shared/postgres/pool.ts";
import { isPostgresUnavailable } from "../../../shared/postgres/unavailable.ts";
import { createTestDatabase, getTestServers } from "../../support/stack.ts";

describe("the pool of connections to Postgres", () => {
  it("Postgres compiles no statements, also if the other settings of the pool make their estimated cost extremely high", async () => {
    const { urls, drop } = await createTestDatabase();
    for (const shouldPreferIndexes of [false, true]) {
      const pool = createPool({
        url: urls.projection,
        applicationName: "test",
        size: 1,
        statementTimeoutMs: 10_000,
        shouldPreferIndexes,
        logger: pino({ enabled: false }),
      });
      const { rows } = await pool.query(
        "SELECT current_setting('jit') AS jit, current_setting('enable_seqscan') AS scan",
      );
      expect(rows).to.deep.equal([{ jit: "off", scan: shouldPreferIndexes ? "off" : "on" }]);
      await pool.end();
    }
    await drop();
  });
});

describe("statements that are sent together", () => {
  let client: pg.Client;

  before(async () => {
    client = new pg.Client({ connectionString: (await getTestServers()).adminDatabaseUrl, pipeline: true });
    await client.connect();
  });
  after(() => client.end());

  it("the results are in the given order", async () => {
    const selectNumber = async (number: number) => (await client.query(`SELECT ${number} AS number`)).rows[0].number;
    expect(await awaitPipelined([selectNumber(1), "a value", selectNumber(2)])).to.deep.equal([1, "a value", 2]);
  });

  it("in a transaction, the error of the failed statement is thrown, and the refusals of the later statements are ignored", async () => {
    const beginPromise = client.query("BEGIN");
    const failedPromise = client.query("SELECT 1 / 0");
    const refusedPromise = client.query("SELECT 1");
    const error = await awaitPipelined([refusedPromise, failedPromise, beginPromise]).catch((reason: Error) => reason);
    await client.query("ROLLBACK");
    expect(error).to.have.property("message", "division by zero");
  });
});

describe("a client of Postgres", () => {
  let server: Server;

  beforeEach(async () => {
    server = createServer((socket) => socket.resume()).listen(0, "127.0.0.1");
    await once(server, "listening");
  });
  afterEach(async () => {
    server.close();
    await once(server, "close");
  });

  it("Postgres soon notices that the machine of a long-lived connection is down", async () => {
    const { databaseUrls } = await getTestServers();
    const options = { databaseUrl: databaseUrls.query, applicationName: "test", logger: pino({ enabled: false }) };
    const client = createLongLivedClient(options);
    await client.connect();
    const { rows } = await client.query("SELECT current_setting('tcp_keepalives_idle') AS seconds");
    await client.end();
    expect(rows).to.deep.equal([{ seconds: "3" }]);
  });

  it("a client that is closed while it connects reports that the connection has ended", async () => {
    const { port } = server.address() as AddressInfo;
    const databaseUrl = `postgres://user:password@127.0.0.1:${port}/clinic`;
    const client = createLongLivedClient({ databaseUrl, applicationName: "test", logger: pino({ enabled: false }) });
    const errorPromise = client.connect().catch((error: Error) => error);
    await once(server, "connection");
    await client.end();
    expect(await errorPromise).to.have.property("message", "Connection terminated");
  });
});

const createDatabaseError = (code: string) => Object.assign(new pg.DatabaseError("words", 5, "error"), { code });

describe("errors that mean Postgres is unavailable", () => {
  const temporaryErrors = {
    "admin shutdown": "57P01",
    "cannot connect now": "57P03",
    "statement timed out": "57014",
    "transaction was idle": "25P03",
    "too many connections": "53300",
    "disk full": "53100",
    deadlock: "40P01",
    "serialization failure": "40001",
    "lock not available": "55P03",
    "connection failure": "08006",
    "read-only server": "25006",
  };
  for (const [errorName, code] of Object.entries(temporaryErrors)) {
    it(`the Postgres error "${errorName}" (${code}) is temporary`, () =>
      expect(isPostgresUnavailable(createDatabaseError(code))).to.equal(true));
  }

  const permanentErrors = {
    "invalid value": "22P02",
    "duplicate value": "23505",
    "missing table": "42P01",
    "wrong password": "28P01",
  };
  for (const [errorName, code] of Object.entries(permanentErrors)) {
    it(`the Postgres error "${errorName}" (${code}) is permanent`, () =>
      expect(isPostgresUnavailable(createDatabaseError(code))).to.equal(false));
  }
});
