import { binaryEvent, UnavailableError } from "@eventstore/db-client";
import { expect } from "chai";
import { event, eventually } from "../../conformance/log-under-test.ts";
import { RecordedSubscription } from "../../conformance/recorded-subscription.ts";
import { LogProcess, temporaryDir } from "./log-process.ts";

describe("stopping the embedded log", function () {
  this.timeout(60_000);
  let dir: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ dir, remove } = await temporaryDir());
  });
  afterEach(() => remove());

  it("ends subscriptions as unavailable, and is gone within two seconds", async () => {
    const log = await LogProcess.start(dir);
    const client = log.client();
    await client.appendToStream("watched", event(0));
    const subscriptions = Array.from(
      { length: 20 },
      (_, n) =>
        new RecordedSubscription(n % 2 === 0 ? client.subscribeToAll() : client.subscribeToStream("watched")),
    );
    for (const seen of subscriptions) await eventually("caught up", () => seen.caughtUp);
    const began = Date.now();
    const { code, stderr } = await log.end("SIGTERM");
    expect(Date.now() - began).to.be.below(2000);
    expect(code).to.equal(0);
    expect(stderr).to.equal("");
    for (const seen of subscriptions) {
      await eventually("the error", () => seen.errors.length > 0);
      expect(seen.errors[0]).to.be.instanceOf(UnavailableError);
    }
    await client.dispose();
  });

  it("is gone within two seconds with a reader that does not read", async () => {
    const log = await LogProcess.start(dir);
    const client = log.client();
    const data = Buffer.alloc(900_000);
    for (let n = 0; n < 20; n += 1) await client.appendToStream("big", binaryEvent({ type: "Big", data }));
    const paused = client.readAll();
    await new Promise((resolve) => paused.once("readable", resolve));
    const began = Date.now();
    paused.on("error", () => undefined);
    expect((await log.end("SIGTERM")).code).to.equal(0);
    expect(Date.now() - began).to.be.below(2000);
    await client.dispose();
  });

  it("answers each append that was waiting: as written, and then it is there, or as failed", async () => {
    const log = await LogProcess.start(dir);
    const client = log.client();
    await client.appendToStream("first", event(0));
    const appends = Array.from({ length: 500 }, (_, n) => client.appendToStream(`waiting-${n}`, event(n)));
    const settled = Promise.allSettled(appends);
    await Promise.race(appends);
    expect((await log.end("SIGTERM")).code).to.equal(0);
    const results = await settled;
    await client.dispose();

    const again = await LogProcess.start(dir);
    const reader = again.client();
    for (const [n, { status }] of results.entries()) {
      if (status === "rejected") continue;
      let found = 0;
      for await (const _ of reader.readStream(`waiting-${n}`)) found += 1;
      expect(found).to.equal(1);
    }
    expect(results.filter(({ status }) => status === "fulfilled").length).to.be.greaterThan(0);
    await reader.dispose();
    await again.end();
  });
});
