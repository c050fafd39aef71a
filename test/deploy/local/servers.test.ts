import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { createServer } from "node:net";
import { expect } from "chai";
import pg from "pg";
import {
  type ExternalServers,
  requireReachable,
  type Servers,
  startServers,
} from "../../../deploy/local/servers/servers.ts";
import { readProcessIdentity } from "../../../deploy/local/setup/processes.mjs";
import { createProgress } from "../../../deploy/local/setup/progress.ts";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { eventually } from "../../support/eventually.ts";
import { findFreePorts } from "../../support/free-ports.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { getRejection } from "../../support/rejection.ts";
import { createTestDatabase, makeTestRoot, startTestServers } from "../../support/stack.ts";

/** External URLs, so that only Postgres is embedded. The tests never connect to these URLs. */
const POSTGRES_ONLY: ExternalServers = {
  EVENTSTORE_URL: "esdb://127.0.0.1:1?tls=false",
  NATS_URL: "nats://127.0.0.1:1",
};

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query({ text: sql, rowMode: "array" })).rows.map(([value]) => value);
  } finally {
    await client.end();
  }
}

describe("a stack with an embedded Postgres", () => {
  let servers: Servers;

  before(async () => {
    // An empty setting counts as not set, so Postgres is embedded here.
    servers = await startTestServers({ ...POSTGRES_ONLY, DATABASE_URL: "" });
  });

  it("the embedded Postgres keeps its data after a stop and after a SIGKILL", async () => {
    const { postgres } = servers.components;
    const url = servers.databaseUrls.projection;
    await query(url, "CREATE TABLE kept AS SELECT 1 AS n");
    await postgres.stop();
    await postgres.start();
    await query(url, "INSERT INTO kept VALUES (2)");
    await postgres.kill();
    await postgres.start();
    expect(await query(url, "SELECT n FROM kept ORDER BY n")).to.eql([1, 2]);
  });

  it("if a process of the embedded Postgres crashes, the whole server ends, so that the supervisor can restart it", async () => {
    const { postgres } = servers.components;
    const client = new pg.Client(servers.databaseUrls.projection);
    client.on("error", () => undefined);
    await client.connect();
    const { rows } = await client.query("SELECT pg_backend_pid() AS pid");
    process.kill(rows[0].pid, "SIGKILL");
    await eventually("the server ends", () => postgres.pid === undefined);
    await postgres.start();
    expect(await query(servers.databaseUrls.projection, "SELECT 1")).to.eql([1]);
  });

  it("each service has a separate database role and password, and only the privileges that the service needs", async () => {
    const { urls, drop } = await createTestDatabase();
    expect(await query(urls.projection, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")).to.eql([false]);
    for (const [url, roleName] of [
      [urls.query, "clinic_query"],
      [urls.command, "clinic_command"],
      [urls.audit, "clinic_audit"],
    ] as const) {
      expect(await query(url, `SELECT pg_has_role('${roleName}', 'member')`)).to.eql([true]);
      expect((await getRejection(query(url, "CREATE TABLE mine ()"))).message).to.include("permission denied");
      const wrongUrl = new URL(url);
      wrongUrl.password = "wrong";
      expect((await getRejection(query(wrongUrl.href, "SELECT 1"))).message).to.include(
        "password authentication failed",
      );
    }
    await drop();
  });

  it("a server at DATABASE_URL replaces the embedded Postgres if the user in the URL can create roles", async () => {
    const superuserUrl = new URL(servers.adminDatabaseUrl);
    superuserUrl.pathname = "/clinic";
    const guestServers = await startTestServers({ ...POSTGRES_ONLY, DATABASE_URL: superuserUrl.href });
    expect(guestServers.databaseUrls.projection).to.equal(superuserUrl.href);
    expect(await query(guestServers.databaseUrls.command, "SELECT current_user")).to.eql(["local_command"]);
    expect((await getRejection(guestServers.components.postgres.stop())).message).to.include("external server");
    await guestServers.stop();
    expect(await query(superuserUrl.href, "SELECT 1"), "still runs").to.eql([1]);
    const refusedStartPromise = startTestServers({ ...POSTGRES_ONLY, DATABASE_URL: servers.databaseUrls.projection });
    expect((await getRejection(refusedStartPromise)).message).to.match(
      /^DATABASE_URL: the user cannot create the roles .*CREATEROLE\.$/,
    );
  });

  it("startServers fails with a one-line error if another stack uses the folder", async () => {
    const { root } = servers.root.paths;
    const progress = createProgress(() => undefined, false);
    const restartPromise = startServers({
      root,
      ports: await findFreePorts(),
      externalUrls: {},
      progress,
      isPostgresEphemeral: true,
    });
    expect((await getRejection(restartPromise)).message).to.equal(
      `The stack in ${root} is already running as process ${process.pid}.`,
    );
  });
});

describe("an external server", () => {
  for (const [name, text] of [
    ["EVENTSTORE_URL", "nonsense"],
    ["EVENTSTORE_URL", "http://127.0.0.1:2113"],
    ["DATABASE_URL", "nonsense"],
    ["DATABASE_URL", "mysql://a:b@127.0.0.1/clinic"],
    ["NATS_URL", "127.0.0.1:4222"],
    ["NATS_URL", "http://127.0.0.1:4222"],
  ] as const)
    it(`the local stack refuses the invalid setting ${name}=${text} before any server starts`, async () => {
      expect((await getRejection(startTestServers({ ...POSTGRES_ONLY, [name]: text }))).message).to.match(
        new RegExp(`^settings: .*${name}.*[a-z]+://`),
      );
    });

  it("requireReachable names the setting of an external server that does not respond", async () => {
    expect((await getRejection(requireReachable({ EVENTSTORE_URL: POSTGRES_ONLY.EVENTSTORE_URL }))).message).to.equal(
      "the event log at esdb://127.0.0.1:1 does not respond; check EVENTSTORE_URL and that the log is running",
    );
    expect((await getRejection(requireReachable({ NATS_URL: "nats://me:secret@127.0.0.1:1" }))).message).to.equal(
      "NATS_URL: no server accepts the connection (127.0.0.1:1: connection refused)",
    );
  });
});

describe("startServers", () => {
  it("startServers fails with a one-line error if no server listens at DATABASE_URL", async () => {
    const refusedStartPromise = startTestServers({
      ...POSTGRES_ONLY,
      DATABASE_URL: "postgres://a:b@127.0.0.1:1/clinic",
    });
    expect((await getRejection(refusedStartPromise)).message).to.equal(
      "DATABASE_URL: connect ECONNREFUSED 127.0.0.1:1",
    );
  });

  it("if a port is in use, startServers stops all servers and suggests another port in a one-line error", async () => {
    const ports = await findFreePorts();
    await listenOnLoopback(createServer(), ports.nats);
    const root = makeTestRoot();
    const progress = createProgress(() => undefined, false);
    const message = (
      await getRejection(startServers({ root, ports, externalUrls: {}, progress, isPostgresEphemeral: true }))
    ).message;
    expect(message).to.match(new RegExp(`^nats: port ${ports.nats} .*NATS_PORT=\\d+$`));
    expect(fs.existsSync(`${root}/lock`)).to.equal(false);
  });

  it("all servers end if the supervisor gets SIGKILL, and the next start uses the same data", async () => {
    const root = makeTestRoot();
    const firstRun = await supervise(root);
    expect(firstRun.pids).to.have.length(3);
    firstRun.child.kill("SIGKILL");
    await eventually("all servers gone", () => firstRun.pids.every((pid) => readProcessIdentity(pid) === undefined));
    const secondRun = await supervise(root);
    expect(await query(secondRun.url, "SELECT 1")).to.eql([1]);
    secondRun.child.kill("SIGKILL");
    await eventually("all servers gone", () => secondRun.pids.every((pid) => readProcessIdentity(pid) === undefined));
  });
});

async function supervise(root: string): Promise<{ child: ChildProcess; pids: number[]; url: string }> {
  const { command, args } = buildNodeCommand("test/deploy/local/supervised-servers.ts", [root]);
  const child = spawn(command, args, { cwd: PROJECT_FOLDER, stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(child.stdout!, "data")) as [Buffer];
  return { child, ...(JSON.parse(line.toString("utf8")) as { pids: number[]; url: string }) };
}
