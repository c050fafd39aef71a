import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import { Registry } from "prom-client";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { createEventLogMeter } from "../../../shared/metrics/event-log-metrics.ts";
import { registerPoolMetrics, registerRateLimitMetrics } from "../../../shared/metrics/postgres-metrics.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createRateLimiter } from "../../../shared/rate-limit/limiter.ts";
import { eventually } from "../../support/eventually.ts";
import { parseMetrics, readSample } from "../../support/metrics.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";

const logger = pino({ enabled: false });

describe("metrics of the servers that a service uses", () => {
  const read = async (registry: Registry, name: string, labels: Record<string, string>) =>
    readSample(parseMetrics(await registry.metrics()), name, labels);

  it("requests that are counted without Postgres are fallbacks, and refusals are counted by the first word of the key", async () => {
    const registry = new Registry();
    const url = "postgres://nobody:nothing@127.0.0.1:9/clinic";
    const pool = createPool({ url, applicationName: "test", size: 1, statementTimeoutMs: 1_000, logger });
    const limiter = createRateLimiter(pool, logger, registerRateLimitMetrics(registry));
    const key = `installation ${randomUUID()}`;
    for (let requestNumber = 1; requestNumber <= 3; requestNumber += 1) await limiter.count(key, 1);
    expect(await read(registry, "rate_limit_fallbacks_total", {})).to.equal(3);
    expect(await read(registry, "rate_limit_refusals_total", { limit: "installation" })).to.equal(2);
    for (const limit of ["address", "token"])
      expect(await read(registry, "rate_limit_refusals_total", { limit }), limit).to.equal(0);
    limiter.close();
    await pool.end();
  });

  it("requests to the event log are counted by outcome", async () => {
    const { eventstoreUrl } = await getTestServers();
    const registries = [new Registry(), new Registry()] as const;
    const clients = [
      connectEventStore(eventstoreUrl, "test"),
      connectEventStore("esdb://127.0.0.1:9?tls=false", "test"),
    ] as const;
    const log = createEventLogMeter(registries[0])(createPlainLog(clients[0]));
    const unavailableLog = createEventLogMeter(registries[1])(createPlainLog(clients[1]));
    const stream = `auditor-${randomUUID()}`;
    expect(await log.readLast(stream)).to.equal(undefined);
    const error = await unavailableLog.read(stream).catch((thrownError: unknown) => thrownError);
    expect(error).to.be.instanceOf(LogUnavailableError);
    const conflict = await log.append(stream, 5n, []).catch((thrownError: unknown) => thrownError);
    expect(conflict).to.be.instanceOf(Error);
    const name = "event_log_request_duration_seconds_count";
    expect(await read(registries[0], name, { request: "read", outcome: "ok" })).to.equal(1);
    expect(await read(registries[0], name, { request: "append", outcome: "conflict" })).to.equal(1);
    expect(await read(registries[0], "event_log_events_total", { request: "append" })).to.equal(0);
    expect(await read(registries[1], name, { request: "read", outcome: "unavailable" })).to.equal(1);
    for (const client of clients) await client.dispose();
  });

  it("a pool reports busy and idle connections, and statements that wait for a connection", async () => {
    const registry = new Registry();
    const { databaseUrls } = await getTestServers();
    const options = { url: databaseUrls.command, applicationName: "clinic test", size: 1, statementTimeoutMs: 20_000 };
    const pool = createPool({ ...options, logger });
    registerPoolMetrics(registry, [pool]);
    const readStates = async () => {
      const states = ["busy", "idle"].map((state) =>
        read(registry, "postgres_pool_connections", { pool: "clinic test", state }),
      );
      return [
        ...(await Promise.all(states)),
        await read(registry, "postgres_pool_waiting_requests", { pool: "clinic test" }),
      ];
    };
    expect(await readStates()).to.deep.equal([0, 0, 0]);
    const connection = await pool.connect();
    const waitingPromise = pool.query("SELECT 1");
    expect(await readStates()).to.deep.equal([1, 0, 1]);
    connection.release();
    await waitingPromise;
    await eventually("the connection is idle", async () => String(await readStates()) === "0,1,0");
    await pool.end();
  });
});
