import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { eventually } from "../support/eventually.ts";
import { createEngineWorld, type EngineWorld, registered } from "./engine-world.ts";

const MAIN = fileURLToPath(new URL("../../projection/main.ts", import.meta.url));

/** The promise that is tested. Milliseconds. */
const TAKEN_OVER_WITHIN = 10_000;

interface Process {
  child: ChildProcess;
  url: string;
}

describe("two projection processes", function () {
  this.timeout(60_000);
  let world: EngineWorld;
  const processes: Process[] = [];

  before(async () => {
    world = await createEngineWorld();
    processes.push(...(await Promise.all([start(), start()])));
  });

  after(async () => {
    for (const { child } of processes) child.kill("SIGKILL");
    await world.close();
  });

  function start(): Promise<Process> {
    const key = randomBytes(32).toString("base64");
    const child = spawn(process.execPath, ["--import=tsx", MAIN], {
      env: {
        ...process.env,
        ...{ PORT: "0", ROLES: "projectors", LOG_LEVEL: "info", NATS_URL: "nats://127.0.0.1:1" },
        ...{ EVENTSTORE_URL: world.eventstoreUrl, DATABASE_URL: world.databaseUrl },
        WEBHOOK_SECRET_KEYS: JSON.stringify({ current: "a", keys: { a: key } }),
      },
      stdio: ["ignore", "pipe", "inherit"],
    });
    return new Promise((resolve, reject) => {
      child.once("exit", (code) => reject(new Error(`ended with ${code}`)));
      createInterface(child.stdout).on("line", (line) => {
        const { msg, url } = JSON.parse(line) as { msg: string; url: string };
        if (msg === "projection runs") resolve({ child, url });
      });
    });
  }

  const get = async ({ url }: Process, path: string) => {
    const response = await fetch(url + path);
    return {
      status: response.status,
      type: response.headers.get("Content-Type"),
      text: await response.text(),
    };
  };
  const gauge = async (of: Process, name: string) =>
    Number(
      (await get(of, "/metrics")).text
        .split("\n")
        .find((line) => line.startsWith(name))
        ?.split(" ")[1],
    );
  const leads = async (of: Process) => (await gauge(of, 'projection_leader{role="projectors"}')) === 1;
  const find = (of: boolean) =>
    eventually("one leads", async () => {
      const led = await Promise.all(processes.map(leads));
      return led.filter(Boolean).length === 1 && processes[led.indexOf(of)];
    });

  it("have one leader, and both are ready", async () => {
    const customerId = randomUUID();
    await world.append(`customer-${customerId}`, registered(customerId, "Ana Kos"));
    await eventually("the row", async () => (await world.nameOf(customerId)) === "Ana Kos");
    await find(true);
    for (const process of processes) {
      const ready = await eventually("ready", async () => {
        const answer = await get(process, "/health/ready");
        return answer.status === 200 && answer;
      });
      expect(JSON.parse(ready.text)).to.deep.equal({ ok: true, parts: { projectors: null } });
    }
  });

  it("tell Prometheus how they do", async () => {
    const leader = await find(true);
    const { status, type } = await get(leader, "/metrics");
    expect([status, type]).to.deep.equal([200, "text/plain; version=0.0.4; charset=utf-8"]);
    const events = 'projection_events_total{role="projectors"}';
    await eventually("the event is counted", async () => (await gauge(leader, events)) >= 1);
    await eventually(
      "no lag",
      async () => (await gauge(leader, 'projection_lag_events{role="projectors"}')) === 0,
    );
    expect(await gauge(leader, 'projection_position{role="projectors"}')).to.be.above(0);
    expect(await gauge(leader, "projection_batch_duration_seconds_count")).to.be.above(0);
  });

  it(`take over within ${TAKEN_OVER_WITHIN / 1000} s of a kill -9`, async () => {
    const leader = await find(true);
    const standby = await find(false);
    const customerId = randomUUID();
    leader.child.removeAllListeners("exit");
    const killed = performance.now();
    leader.child.kill("SIGKILL");
    await world.append(`customer-${customerId}`, registered(customerId, "Taken Over"));
    await eventually("the row", async () => (await world.nameOf(customerId)) === "Taken Over", 30_000);
    expect(performance.now() - killed).to.be.below(TAKEN_OVER_WITHIN);
    await eventually("it leads", () => leads(standby));
    const { out } = await world.cli("status", "--json");
    const [projectors] = JSON.parse(out).followers;
    expect(projectors.process).to.deep.include({ state: "running", detail: null });
    expect(projectors.alive).to.equal(true);
  });

  it("are not ready when the leader stopped at an event, live on, and say why", async () => {
    const leader = processes.find(({ child }) => child.signalCode === null)!;
    const stream = `customer-${randomUUID()}`;
    await world.append(stream, { type: "CustomerRegistered", data: {} });
    const answer = await eventually("not ready", async () => {
      const ready = await get(leader, "/health/ready");
      return ready.status === 503 && ready.text.includes(stream) && ready;
    });
    expect(JSON.parse(answer.text).parts.projectors).to.match(
      /^stopped at position \d+, stream customer-[0-9a-f-]{36}, revision 0, CustomerRegistered(; \d+ events and \d+ s behind)?$/,
    );
    expect((await get(leader, "/health/live")).status).to.equal(200);
    await eventually(
      "on record",
      async () => (await gauge(leader, 'projection_failed{role="projectors"}')) === 1,
    );
  });

  it("are missed when both are gone: the status says so, with when one was last seen", async () => {
    const standby = processes.find(({ child }) => child.exitCode === null && child.signalCode === null)!;
    const gone = new Promise((resolve) => {
      standby.child.removeAllListeners("exit").once("exit", resolve);
    });
    standby.child.kill("SIGTERM");
    expect(await gone).to.equal(0);
    // As if it were a minute later: the one that was killed has not said that it goes.
    await world.pool.query("UPDATE projection.process_status SET at = at - interval '1 minute'");
    const { out, code } = await world.cli("status");
    expect(code).to.equal(0);
    expect(out).to.match(
      /^ {2}process {6}none runs; \S+:\d+ was last seen [67]\d s ago \((failed|running)\)$/m,
    );
  });
});
