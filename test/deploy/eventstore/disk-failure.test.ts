/** If the disk fails, the log stops with a one-line error and loses no acknowledged event. */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { collect } from "../../conformance/log-under-test.ts";
import { createTemporaryDir, LogProcess } from "./log-process.ts";

const MAX_FILE_KIB = 1024;

describe("the embedded log on a failing disk", function () {
  this.timeout(60_000);

  it("a disk failure stops the log with a one-line error, and a restarted log has all acknowledged events", async () => {
    const { dir, remove } = await createTemporaryDir();
    const log = await LogProcess.start(dir, 0, MAX_FILE_KIB);
    const client = log.createClient();
    const text = "x".repeat(20_000);
    let acknowledgedCount = 0;
    let hasFailed = false;
    while (!hasFailed && acknowledgedCount < 1000) {
      const event = jsonEvent({ type: "Large", data: { n: acknowledgedCount, text } });
      const expectedRevision = acknowledgedCount === 0 ? "no_stream" : BigInt(acknowledgedCount - 1);
      await client.appendToStream("full", event, { expectedRevision }).then(
        () => {
          acknowledgedCount += 1;
        },
        () => {
          hasFailed = true;
        },
      );
    }
    expect(hasFailed).to.equal(true);
    const { code, stderr } = await log.exitPromise;
    expect(code).to.equal(1);
    expect(stderr).to.match(/^The embedded log stopped: .+\n$/);
    await client.dispose();

    const restartedLog = await LogProcess.start(dir);
    const restartedClient = restartedLog.createClient();
    const events = await collect(restartedClient.readStream("full"));
    expect(events.length).to.be.within(acknowledgedCount, acknowledgedCount + 1);
    expect(events.map(({ event }) => (event!.data as { n: number }).n)).to.deep.equal(events.map((_, n) => n));
    await restartedClient.dispose();
    await restartedLog.kill();
    await remove();
  });

  it("the log prints a disk failure even if the log cannot be closed afterwards", async () => {
    const { dir, remove } = await createTemporaryDir();
    const log = await LogProcess.start(dir, 0, MAX_FILE_KIB);
    // Makes the log fail to release its lock, as on a file system that has become read-only.
    await rm(join(dir, "lock"));
    await mkdir(join(dir, "lock"));
    const client = log.createClient();
    const event = () => jsonEvent({ type: "Large", data: { text: "x".repeat(500_000) } });
    for (let n = 0; n < 4; n += 1) await client.appendToStream("full", event()).catch(() => undefined);
    const { code, stderr } = await log.exitPromise;
    expect(code).to.equal(1);
    expect(stderr).to.match(/^The embedded log stopped: EFBIG.+\n$/);
    await client.dispose();
    await remove();
  });
});
