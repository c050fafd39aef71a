import { binaryEvent, UnavailableError } from "@eventstore/db-client";
import { expect } from "chai";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { collect, createEvent } from "../../conformance/log-under-test.ts";
import { RecordedSubscription } from "../../conformance/recorded-subscription.ts";
import { eventually } from "../../support/eventually.ts";
import { createClient, createTemporaryDir, LogProcess } from "./log-process.ts";

describe("stopping the embedded log", function () {
  this.timeout(60_000);
  let dir: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ dir, remove } = await createTemporaryDir());
  });
  afterEach(() => remove());

  it("SIGTERM ends subscriptions with UNAVAILABLE within two seconds", async () => {
    const log = await LogProcess.start(dir);
    const client = log.createClient();
    await client.appendToStream("watched", createEvent(0));
    const subscriptions = Array.from(
      { length: 20 },
      (_, n) => new RecordedSubscription(n % 2 === 0 ? client.subscribeToAll() : client.subscribeToStream("watched")),
    );
    for (const subscription of subscriptions) await eventually("caught up", () => subscription.hasCaughtUp);
    const startedAt = Date.now();
    const { code, stderr } = await log.kill("SIGTERM");
    expect(Date.now() - startedAt).to.be.below(2000);
    expect(code).to.equal(0);
    expect(stderr).to.equal("");
    for (const subscription of subscriptions) {
      await eventually("the error", () => subscription.errors.length > 0);
      expect(subscription.errors[0]).to.be.instanceOf(UnavailableError);
    }
    await client.dispose();
  });

  it("SIGTERM stops the log within two seconds even if a client does not read the responses", async () => {
    const log = await LogProcess.start(dir);
    const client = log.createClient();
    const data = Buffer.alloc(900_000);
    const append = () => client.appendToStream("big", binaryEvent({ type: "Big", data }));
    await Promise.all(Array.from({ length: 20 }, append));
    const pausedRead = client.readAll();
    await new Promise((resolve) => pausedRead.once("readable", resolve));
    const startedAt = Date.now();
    pausedRead.on("error", () => undefined);
    expect((await log.kill("SIGTERM")).code).to.equal(0);
    expect(Date.now() - startedAt).to.be.below(2000);
    await client.dispose();
  });

  it("every append that succeeds during a shutdown is stored exactly once", async () => {
    const log = await LogProcess.start(dir);
    const client = log.createClient();
    await client.appendToStream("first", createEvent(0));
    const appends = Array.from({ length: 500 }, (_, n) => client.appendToStream(`waiting-${n}`, createEvent(n)));
    const settlePromise = Promise.allSettled(appends);
    await Promise.race(appends);
    expect((await log.kill("SIGTERM")).code).to.equal(0);
    const outcomes = await settlePromise;
    await client.dispose();

    const restartedLog = await startLogServer({ dir, host: "127.0.0.1", port: 0 });
    const restartedClient = createClient(restartedLog.port);
    const storedStreams = (await collect(restartedClient.readAll())).map(({ event }) => event?.streamId ?? "");
    expect(new Set(storedStreams).size, "each once").to.equal(storedStreams.length);
    for (const [n, { status }] of outcomes.entries())
      if (status === "fulfilled") expect(storedStreams).to.include(`waiting-${n}`);
    expect(outcomes.filter(({ status }) => status === "fulfilled").length).to.be.greaterThan(0);
    await restartedClient.dispose();
    await restartedLog.stop();
  });
});
