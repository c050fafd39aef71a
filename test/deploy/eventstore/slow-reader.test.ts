/** Memory usage of a log with slow clients. */
import { readFile } from "node:fs/promises";
import { binaryEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { createTemporaryDir, LogProcess } from "./log-process.ts";

const READER_COUNT = 4;
const EVENT_COUNT = 60;
const EVENT_BYTES = 1_000_000;

/** Returns the peak memory usage of a process in bytes. */
async function readPeakMemory(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

describe("slow readers of the embedded log", function () {
  this.timeout(60_000);

  it("slow readers get every event, and the queues of slow readers use a limited amount of memory", async () => {
    const { dir, remove } = await createTemporaryDir();
    const log = await LogProcess.start(dir);
    const client = log.createClient();
    const data = Buffer.alloc(EVENT_BYTES, 7);
    const append = () => client.appendToStream("big", binaryEvent({ type: "Big", data }));
    for (let n = 0; n < EVENT_COUNT; n += 15) await Promise.all(Array.from({ length: 15 }, append));
    const bytesBefore = await readPeakMemory(log.pid);

    const reads = Array.from({ length: READER_COUNT }, () => client.readAll());
    for (const read of reads) await new Promise((resolve) => read.once("readable", resolve));
    // Consumes the reads one after the other, so that the remaining reads are paused.
    for (const read of reads) {
      let count = 0;
      for await (const _ of read) count += 1;
      expect(count).to.equal(EVENT_COUNT);
    }
    expect((await readPeakMemory(log.pid)) - bytesBefore).to.be.below((READER_COUNT * EVENT_COUNT * EVENT_BYTES) / 2);
    await client.dispose();
    await log.kill();
    await remove();
  });
});
