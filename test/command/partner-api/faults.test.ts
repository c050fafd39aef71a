import { join } from "node:path";
import { expect } from "chai";
import { type LogServer, startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { parseMetrics, readSample } from "../../support/metrics.ts";
import {
  createPartnerWorld,
  type PartnerWorld,
  sendRequest,
  sendTokenRequest,
  startTestCommandService,
  type TestCommand,
} from "../../support/partner.ts";
import { expectRefusal, type RawResponse, sendRaw } from "../../support/raw-http.ts";
import { mountSmallDisk, type SmallDisk } from "../../support/small-disk.ts";
import { getTestServers } from "../../support/stack.ts";
import { postAppointment, serveCommandApp } from "./command-app.ts";

/** Number of incomplete token requests to send. It is lower than the rate limit of one address. */
const REQUEST_COUNT = 500;

/** Time limits below the service's 20 s, so that the tests are fast. Much longer than one POST /appointments takes. */
const CLIENT_TIMEOUTS = { headersTimeoutMs: 5_000, requestTimeoutMs: 5_000 };

describe("the command service while servers fail", () => {
  let proxy: FaultProxy;
  let command: TestCommand;
  let world: PartnerWorld;

  before(async () => {
    proxy = await startFaultProxy((await getTestServers()).eventstoreUrl);
    // Postgres is unavailable during all tests.
    const DATABASE_URL = "postgres://nobody:nothing@127.0.0.1:9/clinic";
    command = await startTestCommandService({ EVENTSTORE_URL: proxy.url, DATABASE_URL });
    world = await createPartnerWorld(command);
  });
  after(async () => {
    await command.stop();
    await proxy.close();
  });

  const createAppointment = (key: string) => postAppointment(command.url, world, key);

  const scrapeReadiness = async () =>
    readSample(parseMetrics(await (await fetch(`${command.url}/metrics`)).text()), "service_ready", {});

  it("the command service works without Postgres, and counts requests in memory", async () => {
    const { status, headers } = await createAppointment("without-postgres");
    expect(status).to.equal(201);
    expect(headers.get("ratelimit-remaining")).to.match(/^\d+$/);
    expect((await sendRequest("GET", `${command.url}/health/ready`)).status).to.equal(200);
    expect(await scrapeReadiness()).to.equal(1);
  });

  it("the command service returns 503 with Retry-After only while the event log is unavailable", async function () {
    this.timeout(60_000);
    proxy.disconnect();
    for (const response of [await createAppointment("while-cut"), await sendTokenRequest(command.url, world)]) {
      expect(response.status).to.equal(503);
      expect(response.body).to.include({ ok: false, error: "event_log_unavailable" });
      expect(Number(response.headers.get("retry-after"))).to.be.above(0);
    }
    expect((await sendRequest("GET", `${command.url}/health/ready`)).status).to.equal(503);
    expect(await scrapeReadiness()).to.equal(0);
    expect((await sendRequest("GET", `${command.url}/health/live`)).status).to.equal(200);
    proxy.restore();
    const deadline = Date.now() + 30_000;
    let response = await createAppointment("while-cut");
    while (response.status === 503 && Date.now() < deadline) response = await createAppointment("while-cut");
    expect(response.status).to.equal(201);
  });
});

describe("the command service while the disk of the event log is full", function () {
  this.timeout(60_000);
  let disk: SmallDisk;
  let log: LogServer;
  let command: TestCommand;
  let world: PartnerWorld;

  before(async function () {
    disk = mountSmallDisk(this, 8);
    log = await startLogServer({ dir: join(disk.folder, "log"), host: "127.0.0.1", port: 0 });
    command = await startTestCommandService({ EVENTSTORE_URL: `esdb://127.0.0.1:${log.port}?tls=false` });
    world = await createPartnerWorld(command);
  });
  after(async () => {
    await command?.stop();
    await log?.stop();
    disk?.remove();
  });

  const createAppointment = (key: string) => postAppointment(command.url, world, key);

  it("the command service returns 503 with Retry-After while the event log's disk is full, and 201 afterwards", async () => {
    disk.fill();
    // The first requests may succeed, because the last page of the log's file may have space for a few small events.
    let response = await createAppointment("filling-0");
    for (let n = 1; response.status === 201 && n < 50; n += 1) response = await createAppointment(`filling-${n}`);
    expect(response.status).to.equal(503);
    expect(response.body).to.include({ ok: false, error: "event_log_unavailable" });
    expect(Number(response.headers.get("retry-after"))).to.be.above(0);
    expect(
      (await sendRequest("GET", `${command.url}/health/ready`)).status,
      "readiness while the log is readable",
    ).to.equal(200);
    disk.free();
    expect((await createAppointment("afterwards")).status).to.equal(201);
  });
});

describe("the command service while clients send incomplete bodies", () => {
  let command: TestCommand;
  let server: Awaited<ReturnType<typeof serveCommandApp>>;

  before(async () => {
    command = await startTestCommandService();
    server = await serveCommandApp(command, {}, CLIENT_TIMEOUTS);
  });
  after(async () => {
    await server.stop();
    await command.stop();
  });

  it("POST /appointments succeeds while 500 token requests are incomplete, and only 20 of them are waited for", async () => {
    const world = await createPartnerWorld(command, "sandbox");
    // A token request needs no credentials before its body is read, so any client can send an incomplete body.
    const requestHead = "POST /sandbox/v1/oauth/token HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n";
    const partialRequest = `${requestHead}Content-Length: 200\r\n\r\n{"client_id":`;
    const pendingResponses = Array.from({ length: REQUEST_COUNT }, () => sendRaw(server.url, partialRequest));
    let endedCount = 0;
    for (const request of pendingResponses) request.finally(() => endedCount++).catch(() => undefined);
    expect((await postAppointment(server.url, world)).status).to.equal(201);
    expect(endedCount, "incomplete requests that have ended").to.be.at.most(REQUEST_COUNT - 20);
    const statuses = new Map<number, number>();
    for (const [response] of await Promise.all(pendingResponses)) {
      const { status } = response as RawResponse;
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 408) expectRefusal(response as RawResponse, 408, "request_timeout");
    }
    // The others exceed the concurrent requests of an address.
    expect(Object.fromEntries(statuses)).to.deep.equal({ 408: 20, 429: REQUEST_COUNT - 20 });
  });
});
