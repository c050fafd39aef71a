import { expect } from "chai";
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
import { getTestServers } from "../../support/stack.ts";

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

  const createAppointment = (key: string) =>
    sendRequest(
      "POST",
      `${command.url}/production/v1/appointments`,
      { ...world.headers, "Idempotency-Key": key },
      { branchId: world.branchId, animalId: world.animalId, scheduledAt: "2099-05-04T10:00:00Z" },
    );

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
