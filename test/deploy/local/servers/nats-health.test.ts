import { expect } from "chai";
import { prepareNats } from "../../../../deploy/local/servers/nats.ts";
import { readGreeting, watchJetStream } from "../../../../deploy/local/servers/nats-health.ts";
import { openPidRegistry } from "../../../../deploy/local/setup/pid-registry.ts";
import { findFreePorts } from "../../../../deploy/local/setup/ports.ts";
import { getLocalPaths } from "../../../../deploy/local/setup/project.ts";
import { eventually } from "../../../support/eventually.ts";
import { makeTestRoot } from "../../../support/stack.ts";

describe("the watch over JetStream", () => {
  it("a server that works, or that is too busy to answer at all, does not count as hung", async () => {
    const paths = getLocalPaths(makeTestRoot());
    const log = () => undefined;
    const port = (await findFreePorts()).nats;
    const part = await prepareNats({ paths, pids: openPidRegistry(paths.pids, log), log }, port);
    await part.start();
    const over = new AbortController();
    let reason: string | undefined;
    const times = { intervalMs: 20, greetingIntervalMs: 20, maxGreetings: 20 };
    const watch = watchJetStream(port, over.signal, times).then((found) => {
      reason = found;
    });
    for (let times = 0; times < 100; times += 1) expect(await readGreeting(port)).to.match(/^INFO /);
    process.kill(part.pid!, "SIGSTOP");
    // A signal takes a moment to stop all threads.
    await eventually("it says nothing", async () => (await readGreeting(port)) === undefined);
    process.kill(part.pid!, "SIGCONT");
    expect(await readGreeting(port)).to.match(/^INFO /);
    expect(reason).to.equal(undefined);
    over.abort();
    await watch;
    expect(reason).to.equal(undefined);
    await part.stop();
  });
});
