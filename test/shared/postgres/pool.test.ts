import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { expect } from "chai";
import pg from "pg";
import { pino } from "pino";
import { migrate } from "../../../projection/prepare-database.ts";
import { createClient } from "../../../shared/postgres/client.ts";
import { createLongLivedClient } from "../../../shared/postgres/long-lived-connection.ts";
import { awaitPipelined, connectWithoutTimeouts, createPool } from "../../../shared/postgres/pool.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
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
  let host: string;

  beforeEach(async () => {
    server = createServer((socket) => socket.resume());
    host = (await listenOnLoopback(server)).host;
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
    const databaseUrl = `postgres://user:password@${host}/clinic`;
    const client = createLongLivedClient({ databaseUrl, applicationName: "test", logger: pino({ enabled: false }) });
    const errorPromise = client.connect().catch((error: Error) => error);
    await once(server, "connection");
    await client.end();
    expect(await errorPromise).to.have.property("message", "Connection terminated");
  });

  it("if the server ends a session as it opens, connecting fails, and the process continues", async () => {
    // An uncaught error would fail the test.
    server.on("connection", (socket) => socket.once("data", () => socket.end(OPEN_AND_END)));
    const logger = pino({ enabled: false });
    for (const options of ["", "?target_session_attrs=read-write"]) {
      const url = `postgres://user:password@${host}/clinic${options}`;
      const pool = createPool({ url, applicationName: "test", size: 2, statementTimeoutMs: 10_000, logger });
      const attempts: Record<string, () => Promise<unknown>> = {
        "a query of a pool": () => pool.query("SELECT 1"),
        "a connection of a pool": () => pool.connect(),
        "a connection without timeouts": () => connectWithoutTimeouts(pool),
        "a long-lived connection": () =>
          createLongLivedClient({ databaseUrl: url, applicationName: "test", logger }).connect(),
        "a client": () => createClient(url, {}).connect(),
        "a migration": () => migrate(url, logger),
      };
      for (const [name, attempt] of Object.entries(attempts)) {
        const error = await attempt().catch((reason: unknown) => reason);
        expect(error, `${name} ${options}`).to.have.property("code", "57P01");
      }
      await pool.end();
    }
    const url = `postgres://user:password@${host},${host}/clinic`;
    const error = await createClient(url, {})
      .connect()
      .catch((reason: unknown) => reason);
    expect(error, "a client that searches its server").to.have.property("code", "57P01");
  });
});

const toMessage = (type: string, body: string) => {
  const length = Buffer.alloc(4);
  length.writeInt32BE(4 + body.length);
  return Buffer.concat([Buffer.from(type), length, Buffer.from(body)]);
};

/** Server messages AuthenticationOk and ReadyForQuery, and an ErrorResponse that ends the session. */
const OPEN_AND_END = Buffer.concat([
  toMessage("R", "\0\0\0\0"),
  toMessage("Z", "I"),
  toMessage("E", "SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"),
]);
