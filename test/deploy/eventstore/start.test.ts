import { expect } from "chai";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { collect, createEvent } from "../../conformance/log-under-test.ts";
import { createClient, createTemporaryDir, LogProcess } from "./log-process.ts";

describe("starting the embedded log", function () {
  this.timeout(60_000);
  let dir: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ dir, remove } = await createTemporaryDir());
  });
  afterEach(() => remove());

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
    const log = await startLogServer({ dir, host: "127.0.0.1", port: 0 });
    expect(await getStartError(["--dir", dir, "--port", "0"])).to.include(`${dir} is in use by another process`);
    await log.stop();
  });

  it("if the port is in use, the log exits with a one-line error and unlocks the directory", async () => {
    const log = await startLogServer({ dir, host: "127.0.0.1", port: 0 });
    const otherTemporaryDir = await createTemporaryDir();
    const args = ["--dir", otherTemporaryDir.dir, "--port", String(log.port)];
    expect(await getStartError(args)).to.include(`Port ${log.port} on 127.0.0.1 is in use`);
    await log.stop();
    await (await startLogServer({ dir: otherTemporaryDir.dir, host: "127.0.0.1", port: 0 })).stop();
    await otherTemporaryDir.remove();
  });

  it("the log exits with a one-line error that names a missing, invalid or unknown argument", async () => {
    expect(await getStartError([]))
      .to.include("--dir is missing")
      .and.include("--port is missing");
    expect(await getStartError(["--dir", dir, "--port", "70000"])).to.include("at most 65535");
    expect(await getStartError(["--dir", dir, "--port", "0", "--colour", "red"])).to.include("--colour");
  });

  it("after a restart, the log has all events, recognises retries and accepts new events", async () => {
    const firstServer = await startLogServer({ dir, host: "127.0.0.1", port: 0 });
    const firstClient = createClient(firstServer.port);
    const events = [createEvent(0), createEvent(1)];
    await firstClient.appendToStream("kept", events, { expectedRevision: "no_stream" });
    await firstClient.deleteStream("kept");
    await firstClient.appendToStream("kept", createEvent(2));
    await firstClient.tombstoneStream("closed");
    await firstClient.dispose();
    await firstServer.stop();

    const secondServer = await startLogServer({ dir, host: "127.0.0.1", port: 0 });
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
    await secondClient.dispose();
    await secondServer.stop();
  });
});
