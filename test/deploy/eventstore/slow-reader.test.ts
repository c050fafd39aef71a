/** Readers that stop reading cost a bounded amount of memory. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { binaryEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { LogProcess, temporaryDir } from "./log-process.ts";

const READERS = 12;
const EVENTS = 60;
const EVENT_BYTES = 1_000_000;

const run = promisify(execFile);

async function residentMebibytes(pid: number): Promise<number> {
  const { stdout } = await run("ps", ["-o", "rss=", "-p", String(pid)]);
  return Number(stdout) / 1024;
}

describe("slow readers of the embedded log", function () {
  this.timeout(60_000);

  it("are waited for, at a bounded cost, and lose nothing", async () => {
    const { dir, remove } = await temporaryDir();
    const log = await LogProcess.start(dir);
    const writer = log.client();
    const data = Buffer.alloc(EVENT_BYTES, 7);
    for (let n = 0; n < EVENTS; n += 1)
      await writer.appendToStream("big", binaryEvent({ type: "Big", data }));
    const before = await residentMebibytes(log.pid);

    const client = log.client();
    const readings = Array.from({ length: READERS }, () => client.readAll());
    for (const reading of readings) await new Promise((resolve) => reading.once("readable", resolve));
    // All readers stand still; the log has gone as far ahead as it goes once its memory stays the same.
    let [last, now] = [0, await residentMebibytes(log.pid)];
    while (now - last > 1) {
      await new Promise((resolve) => setTimeout(resolve, 300));
      [last, now] = [now, await residentMebibytes(log.pid)];
    }
    const whole = (READERS * EVENTS * EVENT_BYTES) / 1024 / 1024;
    expect(now - before).to.be.below(whole / 2);

    for (const reading of readings) {
      let count = 0;
      for await (const _ of reading) count += 1;
      expect(count).to.equal(EVENTS);
    }
    await writer.dispose();
    await client.dispose();
    await log.end();
    await remove();
  });
});
