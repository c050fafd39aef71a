import { expect } from "chai";
import { prepareNats } from "../../../../deploy/local/servers/nats.ts";
import { readGreeting, watchJetStream } from "../../../../deploy/local/servers/nats-health.ts";
import { openPidRegistry } from "../../../../deploy/local/setup/pid-registry.ts";
import { findFreePorts } from "../../../../deploy/local/setup/ports.ts";
import { getLocalPaths } from "../../../../deploy/local/setup/project.ts";
import { eventually } from "../../../support/eventually.ts";
import { makeTestRoot } from "../../../support/stack.ts";

describe("watchJetStream", () => {
  it("watchJetStream does not report a server that works, or a server that is too busy to send a greeting", async () => {
    const paths = getLocalPaths(makeTestRoot());
    const log = () => undefined;
    const port = (await findFreePorts()).nats;
    const nats = await prepareNats({ paths, pids: openPidRegistry(paths.pids, log), log }, port);
    await nats.start();
    const controller = new AbortController();
    let failure: string | undefined;
    const healthTimings = { intervalMs: 20, greetingIntervalMs: 20, maxGreetings: 20, greetingTimeoutMs: 500 };
    const watchPromise = watchJetStream(port, controller.signal, healthTimings).then((problem) => {
      failure = problem;
    });
    for (let count = 0; count < 100; count += 1) expect(await readGreeting(port)).to.match(/^INFO /);
    process.kill(nats.pid!, "SIGSTOP");
    // After SIGSTOP, some threads run for a moment longer.
    await eventually("no greeting", async () => (await readGreeting(port, 500)) === undefined);
    for (let count = 0; count < 3; count += 1) expect(await readGreeting(port, 500)).to.equal(undefined);
    process.kill(nats.pid!, "SIGCONT");
    expect(await readGreeting(port)).to.match(/^INFO /);
    expect(failure).to.equal(undefined);
    controller.abort();
    await watchPromise;
    expect(failure).to.equal(undefined);
    await nats.stop();
  });
});
