import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { useResource } from "../support/resources.ts";
import { createEngineWorld, createRegisteredEvent } from "./engine-world.ts";
import { type ServiceProcess, startService } from "./service-process.ts";

/** Documented time limit for a standby process to take over. Milliseconds. */
const TAKEOVER_TIMEOUT_MS = 10_000;

describe("two projection processes", () => {
  const world = useResource(createEngineWorld);
  const processes: ServiceProcess[] = [];

  before(async () => {
    processes.push(...(await Promise.all([startProcess(), startProcess()])));
  });

  after(async () => {
    for (const process of processes) await process.kill();
  });

  const startProcess = () => startService({ ...world, roles: "projectors" });

  const sendGet = async ({ url }: ServiceProcess, path: string) => {
    const response = await fetch(url + path);
    return { status: response.status, type: response.headers.get("Content-Type"), text: await response.text() };
  };
  const LEADER_METRIC = 'projection_leader{role="projectors"}';
  const isLeading = async (service: ServiceProcess) => (await service.readGauge(LEADER_METRIC)) === 1;
  const findProcess = (isLeader: boolean) =>
    eventually("one process leads", async () => {
      const leaderFlags = await Promise.all(processes.map(isLeading));
      return leaderFlags.filter(Boolean).length === 1 && processes[leaderFlags.indexOf(isLeader)];
    });

  it("one of two projection processes is the leader, and both processes are ready", async () => {
    const customerId = randomUUID();
    await world.append(`customer-${customerId}`, createRegisteredEvent(customerId, "Ana Kos"));
    await eventually("the row", async () => (await world.readName(customerId)) === "Ana Kos");
    await findProcess(true);
    for (const process of processes) {
      const readyResponse = await eventually("ready", async () => {
        const response = await sendGet(process, "/health/ready");
        return response.status === 200 && response;
      });
      expect(JSON.parse(readyResponse.text)).to.deep.equal({ ok: true, parts: { projectors: null } });
    }
  });

  it("a standby process never reports itself as the leader", async () => {
    await findProcess(true);
    const thirdProcess = await startProcess();
    const gaugeValues = new Set<number>();
    await eventually("it stands by", async () => {
      gaugeValues.add(await thirdProcess.readGauge(LEADER_METRIC));
      return (await thirdProcess.readHealth()).status === 200 && gaugeValues.has(0);
    });
    expect(gaugeValues).not.to.include(1);
    await thirdProcess.kill();
  });

  it("the leader serves metrics", async () => {
    const leader = await findProcess(true);
    const { status, type } = await sendGet(leader, "/metrics");
    expect([status, type]).to.deep.equal([200, "text/plain; version=0.0.4; charset=utf-8"]);
    const eventsMetric = 'projection_events_total{role="projectors"}';
    await eventually("the event is counted", async () => (await leader.readGauge(eventsMetric)) >= 1);
    await eventually("no lag", async () => (await leader.readGauge('projection_lag_events{role="projectors"}')) === 0);
    expect(await leader.readGauge('projection_position{role="projectors"}')).to.be.above(0);
    expect(await leader.readGauge("projection_batch_duration_seconds_count")).to.be.above(0);
  });

  it("a standby takes over from a leader that is frozen, which stands by when it continues", async () => {
    const leader = await findProcess(true);
    const standby = await findProcess(false);
    const customerId = randomUUID();
    leader.child.kill("SIGSTOP");
    await world.append(`customer-${customerId}`, createRegisteredEvent(customerId, "Taken Over"));
    await eventually("the row", async () => (await world.readName(customerId)) === "Taken Over");
    leader.child.kill("SIGCONT");
    await eventually("the new leader", async () => (await isLeading(standby)) && !(await isLeading(leader)));
  });

  it(`a standby takes over within ${TAKEOVER_TIMEOUT_MS / 1000} s of a kill -9`, async () => {
    const leader = await findProcess(true);
    const standby = await findProcess(false);
    const customerId = randomUUID();
    const killedAt = performance.now();
    leader.child.kill("SIGKILL");
    await world.append(`customer-${customerId}`, createRegisteredEvent(customerId, "Taken Over"));
    await eventually("the row", async () => (await world.readName(customerId)) === "Taken Over");
    expect(performance.now() - killedAt).to.be.below(TAKEOVER_TIMEOUT_MS);
    await eventually("it leads", () => isLeading(standby));
    const { stdout } = await world.runCommand("status", "--json");
    const [projectors] = JSON.parse(stdout).followers;
    expect(projectors.process).to.deep.include({ state: "running", detail: null });
    expect(projectors.alive).to.equal(true);
  });

  it("if too many streams fail with one event type, both processes report the event at which the leader stopped", async () => {
    const leader = processes.find(({ child }) => child.signalCode === null)!;
    for (let count = 0; count < 20; count += 1)
      await world.append(`customer-${randomUUID()}`, { type: "CustomerRegistered", data: {} });
    const stream = `customer-${randomUUID()}`;
    await world.append(stream, { type: "CustomerRegistered", data: {} });
    const response = await eventually("not ready", async () => {
      const readyResponse = await sendGet(leader, "/health/ready");
      return readyResponse.status === 503 && readyResponse.text.includes(stream) && readyResponse;
    });
    expect(JSON.parse(response.text).parts.projectors).to.match(
      /^stopped at position \d+, stream customer-[0-9a-f-]{36}, revision 0, CustomerRegistered$/,
    );
    expect((await sendGet(leader, "/health/live")).status).to.equal(200);
    await eventually("on record", async () => (await leader.readGauge('projection_failed{role="projectors"}')) === 1);
  });

  it("the status shows when a stopped process was last seen", async () => {
    const standby = processes.find(({ child }) => child.exitCode === null && child.signalCode === null)!;
    const exitPromise = new Promise((resolve) => {
      standby.child.once("exit", resolve);
    });
    standby.child.kill("SIGTERM");
    expect(await exitPromise).to.equal(0);
    // Makes the reports a minute older. The killed process did not report its stop.
    await world.pool.query("UPDATE projection.process_status SET at = at - interval '1 minute'");
    const { stdout, code } = await world.runCommand("status");
    expect(code).to.equal(0);
    expect(stdout).to.match(
      /^ {2}process {6}no process is running; \S+:\d+ was last seen [67]\d s ago \((failed|running)\)$/m,
    );
  });
});
