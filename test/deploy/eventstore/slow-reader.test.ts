import { EventEmitter } from "node:events";
import { readFile } from "node:fs/promises";
import { binaryEvent } from "@eventstore/db-client";
import { expect } from "chai";
import {
  FlowControlledWriter,
  type ReadCall,
} from "../../../deploy/local/eventstore/protocol/flow-controlled-writer.ts";
import { LogProcess, makeTemporaryDir } from "./log-process.ts";

const READER_COUNT = 4;
const EVENT_COUNT = 60;
const EVENT_BYTES = 1_000_000;

/** Returns the peak memory usage of a process in bytes. */
async function readPeakMemory(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

describe("slow readers of the embedded log", () => {
  it("slow readers get every event, and the queues of slow readers use a limited amount of memory", async () => {
    const dir = makeTemporaryDir();
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
    await log.kill();
  });
});

const PAGE_BYTES = 1024 * 1024;

describe("flow control of a read", () => {
  it("a small message for a slow client is copied, so that the page with the message is not kept in memory", () => {
    const messages: Uint8Array[] = [];
    const call = Object.assign(new EventEmitter(), {
      writableLength: 1,
      writableNeedDrain: true,
      write: (message: Uint8Array) => messages.push(message),
    });
    const writer = new FlowControlledWriter(call as unknown as ReadCall);
    const page = Buffer.alloc(PAGE_BYTES, 7);
    writer.send(page.subarray(100, 300));
    writer.send(page.subarray(0, PAGE_BYTES / 2));
    expect(messages[0]).to.deep.equal(page.subarray(100, 300));
    expect(messages[0]!.buffer.byteLength).to.be.at.most(Buffer.poolSize);
    expect(messages[1]!.buffer, "a large message is not copied").to.equal(page.buffer);
  });
});
