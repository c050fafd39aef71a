import { binaryEvent, UnavailableError } from "@eventstore/db-client";
import { expect } from "chai";
import { collect, createEvent } from "../../conformance/log-under-test.ts";
import { RecordedSubscription } from "../../conformance/recorded-subscription.ts";
import { eventually } from "../../support/eventually.ts";
import { startSeparateLog } from "../../support/own-log.ts";
import { createClient, LogProcess, makeTemporaryDir } from "./log-process.ts";

describe("starting the embedded log", () => {
  let dir: string;

  beforeEach(() => {
    dir = makeTemporaryDir();
  });

  async function getStartError(args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await new LogProcess(args).exitPromise;
    expect(code).to.equal(1);
    expect(stdout).to.equal("");
    expect(stderr.trimEnd().split("\n")).to.have.length(1);
    return stderr;
  }

  it("the log creates the directory, and prints only the port to standard output", async () => {
    const log = await LogProcess.start(`${dir}/new/deep`);
    expect(log.port).to.be.greaterThan(0);
    const { code, stdout, stderr } = await log.kill();
    expect(code).to.equal(0);
    expect(stdout).to.equal(`listening ${log.port}\n`);
    expect(stderr).to.equal("");
  });

  it("the log exits with a one-line error if another process uses the directory", async () => {
    const log = await startSeparateLog({ dir });
    expect(await getStartError(["--dir", dir, "--port", "0"])).to.include(`${dir} is in use by another process`);
    await log.stop();
  });

  it("if the port is in use, the log exits with a one-line error and unlocks the directory", async () => {
    const log = await startSeparateLog({ dir });
    const otherDir = makeTemporaryDir();
    const args = ["--dir", otherDir, "--port", String(log.port)];
    expect(await getStartError(args)).to.include(`Port ${log.port} on 127.0.0.1 is in use`);
    await log.stop();
    await (await startSeparateLog({ dir: otherDir })).stop();
  });

  it("the log exits with a one-line error that names a missing, invalid or unknown argument", async () => {
    expect(await getStartError([]))
      .to.include("--dir is missing")
      .and.include("--port is missing");
    expect(await getStartError(["--dir", dir, "--port", "70000"])).to.include("at most 65535");
    expect(await getStartError(["--dir", dir, "--port", "0", "--colour", "red"])).to.include("--colour");
  });

  it("after a restart, the log has all events, recognises retries and accepts new events", async () => {
    const firstServer = await startSeparateLog({ dir });
    const firstClient = createClient(firstServer.port);
    const events = [createEvent(0), createEvent(1)];
    await firstClient.appendToStream("kept", events, { expectedRevision: "no_stream" });
    await firstClient.deleteStream("kept");
    await firstClient.appendToStream("kept", createEvent(2));
    await firstClient.tombstoneStream("closed");
    await firstServer.stop();

    const secondServer = await startSeparateLog({ dir });
    const secondClient = createClient(secondServer.port);
    const storedEvents = await collect(secondClient.readStream("kept"));
    expect(storedEvents.map(({ event }) => Number(event?.revision))).to.deep.equal([2]);
    const retryResult = await secondClient.appendToStream("kept", events, { expectedRevision: "no_stream" });
    expect(retryResult.nextExpectedRevision).to.equal(1n);
    const nextResult = await secondClient.appendToStream("kept", createEvent(3), { expectedRevision: 2n });
    expect(nextResult.position!.commit > storedEvents[0]!.event!.position!.commit).to.equal(true);
    let errorType = "";
    await secondClient.appendToStream("closed", createEvent(0)).catch((error: { type: string }) => {
      errorType = error.type;
    });
    expect(errorType).to.equal("stream-deleted");
    await secondServer.stop();
  });
});

describe("stopping the embedded log", () => {
  let dir: string;

  beforeEach(() => {
    dir = makeTemporaryDir();
  });

  it("SIGTERM ends subscriptions with UNAVAILABLE", async () => {
    const log = await LogProcess.start(dir);
    const client = log.createClient();
    await client.appendToStream("watched", createEvent(0));
    const subscriptions = Array.from(
      { length: 20 },
      (_, n) => new RecordedSubscription(n % 2 === 0 ? client.subscribeToAll() : client.subscribeToStream("watched")),
    );
    for (const subscription of subscriptions) await eventually("caught up", () => subscription.hasCaughtUp);
    const { code, stderr } = await log.kill("SIGTERM");
    expect(code).to.equal(0);
    expect(stderr).to.equal("");
    for (const subscription of subscriptions) {
      await eventually("the error", () => subscription.errors.length > 0);
      expect(subscription.errors[0]).to.be.instanceOf(UnavailableError);
    }
  });

  it("SIGTERM stops the log even if a client does not read the responses", async () => {
    const log = await LogProcess.start(dir);
    const client = log.createClient();
    const data = Buffer.alloc(900_000);
    const append = () => client.appendToStream("big", binaryEvent({ type: "Big", data }));
    await Promise.all(Array.from({ length: 20 }, append));
    const pausedRead = client.readAll();
    await new Promise((resolve) => pausedRead.once("readable", resolve));
    pausedRead.on("error", () => undefined);
    expect((await log.kill("SIGTERM")).code).to.equal(0);
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

    const restartedLog = await startSeparateLog({ dir });
    const restartedClient = createClient(restartedLog.port);
    const storedStreams = (await collect(restartedClient.readAll())).map(({ event }) => event?.streamId ?? "");
    expect(new Set(storedStreams).size, "each once").to.equal(storedStreams.length);
    for (const [n, { status }] of outcomes.entries())
      if (status === "fulfilled") expect(storedStreams).to.include(`waiting-${n}`);
    expect(outcomes.filter(({ status }) => status === "fulfilled").length).to.be.greaterThan(0);
    await restartedLog.stop();
  });
});
