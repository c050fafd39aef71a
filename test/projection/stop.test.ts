import { once } from "node:events";
import { createServer } from "node:net";
import { expect } from "chai";
import pg from "pg";
import { startProjection } from "../../projection/start.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { eventually } from "../support/eventually.ts";
import { startFaultProxy } from "../support/fault-proxy.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { createDatabaseWithReadModels } from "../support/migrated-database.ts";
import { startOwnLog } from "../support/own-log.ts";
import { getTestServers } from "../support/stack.ts";
import { buildServiceSettings, startService } from "./service-process.ts";

const ROLES = "projectors,relay,webhooks";

describe("a projection process", () => {
  it("a projection process stops in time even if no server responds", async () => {
    const [ownLog, database] = [await startOwnLog(), await createDatabaseWithReadModels()];
    const urls = [ownLog.eventstoreUrl, database.urls.projection, (await getTestServers()).natsUrl];
    const proxies = await Promise.all(urls.map(startFaultProxy));
    const [eventstoreUrl, databaseUrl, natsUrl] = proxies.map(({ url }) => url) as [string, string, string];
    const service = await startService({ eventstoreUrl, databaseUrl, natsUrl, roles: ROLES });
    try {
      await eventually("all roles at work", async () => (await service.readHealth()).status === 200);
      for (const proxy of proxies) proxy.mute();
      const exitPromise = once(service.child, "exit");
      service.child.kill("SIGTERM");
      // If the stop takes too long, the process exits with 1.
      expect(await exitPromise).to.deep.equal([0, null]);
    } finally {
      await Promise.all(proxies.map((proxy) => proxy.close()));
      await ownLog.stop();
    }
  });

  it("a projection service that fails to start leaves no database connection open", async () => {
    const { eventstoreUrl, natsUrl } = await getTestServers();
    const database = await createDatabaseWithReadModels();
    const databaseUrl = database.urls.projection;
    const PORT = String((await listenOnLoopback(createServer())).port);
    const settings = buildServiceSettings({
      eventstoreUrl,
      databaseUrl,
      natsUrl,
      roles: ROLES,
      env: { PORT, LOG_LEVEL: "fatal" },
    });
    const error = await startProjection(settings).catch((error: Error) => error);
    expect(error).to.be.instanceOf(StartError);
    const client = new pg.Client(databaseUrl);
    await client.connect();
    const otherConnectionsSql =
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    await eventually("no connection left", async () => (await client.query(otherConnectionsSql)).rowCount === 0);
    await client.end();
  });
});
