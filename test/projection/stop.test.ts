import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { createInterface } from "node:readline";
import { expect } from "chai";
import pg from "pg";
import { buildNodeCommand } from "../../deploy/local/setup/project.ts";
import { startProjection } from "../../projection/start.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { eventually } from "../support/eventually.ts";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.ts";
import { createDatabaseWithReadModels } from "../support/migrated-database.ts";
import { type OwnLog, startOwnLog } from "../support/own-log.ts";
import { getTestServers, type TestDatabase } from "../support/stack.ts";

describe("a projection process", () => {
  let database: TestDatabase;
  let ownLog: OwnLog | undefined;
  let child: ChildProcess | undefined;
  const proxies: FaultProxy[] = [];

  afterEach(async () => {
    child?.kill("SIGKILL");
    await Promise.all(proxies.splice(0).map((proxy) => proxy.close()));
    await ownLog?.stop();
    ownLog = undefined;
    await database.drop();
  });

  async function startBehindProxies(): Promise<string> {
    const { natsUrl } = await getTestServers();
    database = await createDatabaseWithReadModels();
    ownLog = await startOwnLog();
    const urls = [ownLog.eventstoreUrl, database.urls.projection, natsUrl];
    proxies.push(...(await Promise.all(urls.map(startFaultProxy))));
    const [EVENTSTORE_URL, DATABASE_URL, NATS_URL] = proxies.map(({ url }) => url);
    const keys = { current: "a", keys: { a: randomBytes(32).toString("base64") } };
    const { command, args } = buildNodeCommand("projection/main.ts");
    child = spawn(command, args, {
      env: {
        ...process.env,
        ...{ EVENTSTORE_URL, DATABASE_URL, NATS_URL, PORT: "0", LOG_LEVEL: "info" },
        PERSONAL_DATA_KEYS,
        WEBHOOK_SECRET_KEYS: JSON.stringify(keys),
      },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const lines = createInterface(child.stdout!);
    for await (const line of lines) {
      const { msg, url } = JSON.parse(line) as { msg: string; url: string };
      if (msg !== "The projection service is running.") continue;
      child.stdout!.resume();
      return url;
    }
    throw new Error("it did not start");
  }

  it("a projection process stops in time even if no server responds", async () => {
    const url = await startBehindProxies();
    await eventually("all roles at work", async () => (await fetch(`${url}/health/ready`)).ok);
    for (const proxy of proxies) proxy.mute();
    child!.kill("SIGTERM");
    // If the stop takes too long, the process exits with 1.
    expect(await once(child!, "exit")).to.deep.equal([0, null]);
  });

  it("a projection service that fails to start leaves no database connection open", async () => {
    const { eventstoreUrl, natsUrl } = await getTestServers();
    database = await createDatabaseWithReadModels();
    const takenServer = createServer().listen(0, "127.0.0.1");
    await once(takenServer, "listening");
    const keys = { current: "a", keys: { a: randomBytes(32).toString("base64") } };
    const startPromise = startProjection({
      ...{ EVENTSTORE_URL: eventstoreUrl, DATABASE_URL: database.urls.projection, NATS_URL: natsUrl },
      ...{ PORT: String((takenServer.address() as AddressInfo).port), LOG_LEVEL: "fatal" },
      PERSONAL_DATA_KEYS,
      WEBHOOK_SECRET_KEYS: JSON.stringify(keys),
    });
    const error = await startPromise.catch((error: Error) => error);
    takenServer.close();
    expect(error).to.be.instanceOf(StartError);
    const client = new pg.Client(database.urls.projection);
    await client.connect();
    const otherConnectionsSql =
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    await eventually("no connection left", async () => (await client.query(otherConnectionsSql)).rowCount === 0);
    await client.end();
  });
});
