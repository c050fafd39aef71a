/** Damaged files: the start or the read fails with one line, and a start drops only unacknowledged data. */
import { copyFile, readFile, rename, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import type { Store } from "../../../deploy/local/eventstore/store/store.ts";
import { collect, createEvent, getRejection } from "../../conformance/log-under-test.ts";
import { createClient, createTemporaryDir, LogProcess } from "./log-process.ts";
import {
  appendEvents,
  createAppend,
  flipBit,
  getSegmentPath,
  openStore,
  readContent,
  submit,
} from "./stored-log.ts";

describe("damaged files of the embedded log", function () {
  this.timeout(120_000);
  let dir: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ dir, remove } = await createTemporaryDir());
  });
  afterEach(() => remove());

  const getEndFilePath = () => join(dir, "events", "acknowledged");

  /** Creates a log with a number of events. Returns the number of its segments. */
  async function createLog(events: number): Promise<number> {
    const store = await openStore(dir);
    await appendEvents(store, events);
    await store.close();
    return countSegments();
  }

  async function countSegments(): Promise<number> {
    for (let number = 1; ; number += 1) {
      if (
        await stat(getSegmentPath(dir, number)).then(
          () => false,
          () => true,
        )
      )
        return number - 1;
    }
  }

  /** Returns the error message of a failed start. */
  async function getStartError(): Promise<string> {
    const { message } = await getRejection(openStore(dir));
    expect(message).not.to.include("\n");
    return message;
  }

  async function changeAndRead(change: (store: Store) => Promise<unknown>) {
    const store = await openStore(dir);
    await change(store);
    const content = await readContent(store);
    await store.close();
    return content;
  }

  it("a log with a flipped bit in its newest file does not start, and the error names file, offset, position and remedy", async () => {
    const segments = await createLog(3_040);
    const newest = getSegmentPath(dir, segments);
    await flipBit(newest, 0.5);
    const { code, stdout, stderr } = await new LogProcess(["--dir", dir, "--port", "0"]).exit;
    expect(code).to.equal(1);
    expect(stdout).to.equal("");
    expect(stderr.trimEnd().split("\n")).to.have.length(1);
    expect(stderr).to.include(newest);
    expect(stderr).to.match(
      /offset \d+, after position \d+: .+ restore its whole directory from a backup\.\n$/,
    );
  });

  it("a log with five flipped bits in an older file does not start", async () => {
    expect(await createLog(3_040)).to.be.greaterThan(3);
    for (const at of [0.1, 0.3, 0.5, 0.7, 0.9]) await flipBit(getSegmentPath(dir, 2), at);
    expect(await getStartError()).to.include(getSegmentPath(dir, 2));
  });

  it("in a running log, exactly the calls that need a damaged event fail", async () => {
    const lines: string[] = [];
    const server = await startLogServer({
      dir,
      host: "127.0.0.1",
      port: 0,
      printLine: (line) => lines.push(line),
    });
    const client = createClient(server.port);
    const events = (stream: string) =>
      Array.from({ length: 30 }, (_, n) => jsonEvent({ type: "Noted", data: { stream, n } }));
    await client.appendToStream("before", events("before"));
    const offset = (await stat(getSegmentPath(dir, 1))).size;
    const damaged = events("damaged");
    const { position } = await client.appendToStream("damaged", damaged, { expectedRevision: "no_stream" });
    await client.appendToStream("after", events("after"));
    await flipBit(getSegmentPath(dir, 1), offset + 300);

    for (const read of [
      () => client.readStream("damaged"),
      () => client.readAll(),
      () => client.readAll({ direction: "backwards", fromPosition: "end" }),
    ]) {
      const { message } = await getRejection(collect(read()));
      expect(message)
        .to.include(getSegmentPath(dir, 1))
        .and.to.match(/position \d+: .+ checksum .+ backup/);
      expect(lines.at(-1)).to.include(getSegmentPath(dir, 1));
    }
    // To recognise a retry, the log compares the ids with the stored events.
    await getRejection(client.appendToStream("damaged", damaged, { expectedRevision: "no_stream" }));
    await getRejection(client.appendToStream("damaged", createEvent(1), { expectedRevision: 0n }));
    expect(await collect(client.readStream("before"))).to.have.length(30);
    expect(await collect(client.readStream("after"))).to.have.length(30);
    // The read of these events also loads the damaged event, which is on the same page.
    expect(await collect(client.readAll({ maxCount: 30 }))).to.have.length(30);
    const newest = { direction: "backwards", fromPosition: "end", maxCount: 30 } as const;
    expect(await collect(client.readAll(newest))).to.have.length(30);
    const last = { direction: "backwards", fromRevision: "end", maxCount: 20 } as const;
    expect(await collect(client.readStream("damaged", last))).to.have.length(20);
    const later = await client.appendToStream("after", createEvent(31));
    expect(later.position!.commit > position!.commit).to.equal(true);
    await client.dispose();
    await server.stopServer();
    expect(await getStartError()).to.include(getSegmentPath(dir, 1));
  });

  it("reads of a running log fail if a segment file is truncated or replaced with the file of another log", async () => {
    const store = await openStore(dir);
    await appendEvents(store, 400);
    const first = getSegmentPath(dir, 1);
    const kept = await readFile(first);
    await truncate(first, 20_000);
    expect((await getRejection(readContent(store))).message).to.include(`${first}, offset 20000`);
    const other = await createTemporaryDir();
    const stranger = await openStore(other.dir);
    await appendEvents(stranger, 400);
    await writeFile(first, await readFile(getSegmentPath(other.dir, 1)), { flag: "r+" });
    expect((await getRejection(readContent(store))).message).to.include(first);
    await writeFile(first, kept, { flag: "r+" });
    await readContent(store);
    await stranger.close();
    await store.close();
    await other.remove();
  });

  it("a log does not start if a file is missing, belongs to another log, or has the name of another file", async () => {
    const segments = await createLog(1_000);
    const other = await createTemporaryDir();
    const stranger = await openStore(other.dir);
    await appendEvents(stranger, 1_000);
    await stranger.close();

    const [first, second, last] = [
      getSegmentPath(dir, 1),
      getSegmentPath(dir, 2),
      getSegmentPath(dir, segments),
    ];
    const aside = join(dir, "aside");
    for (const path of [first, second, last, getEndFilePath()]) {
      await rename(path, aside);
      expect(await getStartError()).to.include(path === last ? "were acknowledged" : `${path}: The`);
      await rename(aside, path);
    }
    await copyFile(last, aside);
    await copyFile(getSegmentPath(other.dir, segments), last);
    expect(await getStartError()).to.include("another log");
    await copyFile(second, last);
    expect(await getStartError()).to.include("does not continue");
    await rename(aside, last);
    await copyFile(last, getSegmentPath(dir, segments + 2));
    expect(await getStartError()).to.include(
      `${getSegmentPath(dir, segments + 1)}: The segment file is missing`,
    );
    await rm(getSegmentPath(dir, segments + 2));
    await copyFile(getEndFilePath(), aside);
    await copyFile(join(other.dir, "events", "acknowledged"), getEndFilePath());
    expect(await getStartError()).to.include("another log");
    await rename(aside, getEndFilePath());
    await rename(join(dir, "events"), aside);
    expect(await getStartError()).to.include(`${join(dir, "events")}: The directory is missing`);
    await rename(aside, join(dir, "events"));
    await (await openStore(dir)).close();
    await other.remove();
  });

  it("a log that is truncated exactly between two acknowledged writes does not start", async () => {
    let end = 0;
    await changeAndRead(async (store) => {
      await appendEvents(store, 50);
      end = (await stat(getSegmentPath(dir, 1))).size;
      await submit(store, createAppend("last", ["acknowledged"]));
    });
    await truncate(getSegmentPath(dir, 1), end);
    expect(await getStartError()).to.match(/offset \d+, .+ all events up to position \d+ were acknowledged/);
  });

  it("a start replaces a damaged copy of the acknowledged end, but fails if both copies are damaged", async () => {
    await createLog(100);
    const intact = await readFile(getEndFilePath());
    for (const offset of [20, 4096 + 20]) {
      await flipBit(getEndFilePath(), offset);
      const lines: string[] = [];
      await (await openStore(dir, { printLine: (line) => lines.push(line) })).close();
      expect(lines).to.have.length(1);
      expect(lines[0]).to.include(getEndFilePath());
      expect(await readFile(getEndFilePath())).to.deep.equal(intact);
    }
    await flipBit(getEndFilePath(), 20);
    await flipBit(getEndFilePath(), 4096 + 20);
    expect(await getStartError()).to.include("Both copies");
  });

  it("a start converts the acknowledged end of an earlier release, which has its second copy at byte 512", async () => {
    await createLog(100);
    const current = await readFile(getEndFilePath());
    const former = Buffer.alloc(1024);
    for (const offset of [0, 512]) current.copy(former, offset, 0, 64);
    for (const damaged of [[], [20], [532]]) {
      await writeFile(getEndFilePath(), former);
      for (const offset of damaged) await flipBit(getEndFilePath(), offset);
      const lines: string[] = [];
      await (await openStore(dir, { printLine: (line) => lines.push(line) })).close();
      expect(lines).to.have.length(damaged.length);
      const rewritten = await readFile(getEndFilePath());
      for (const offset of [0, 4096]) {
        expect(rewritten.subarray(offset, offset + 64)).to.deep.equal(current.subarray(0, 64));
      }
    }
    await flipBit(getEndFilePath(), 20);
    await flipBit(getEndFilePath(), 4096 + 20);
    expect(await getStartError(), "the copy at byte 512 is out of date").to.include("Both copies");
  });

  describe("after the acknowledged end", () => {
    let acknowledged: Awaited<ReturnType<typeof readContent>>;
    let complete: Awaited<ReturnType<typeof readContent>>;
    let border: number;
    let size: number;
    let bytes: Buffer;
    let lines: string[];

    /** Creates a log whose last write is on disk but after the recorded acknowledged end. */
    beforeEach(async () => {
      acknowledged = await changeAndRead((store) => appendEvents(store, 50));
      border = (await stat(getSegmentPath(dir, 1))).size;
      await copyFile(getEndFilePath(), join(dir, "aside"));
      complete = await changeAndRead((store) =>
        submit(store, createAppend("last", ["x".repeat(2_000), "y".repeat(2_000)])),
      );
      await rename(join(dir, "aside"), getEndFilePath());
      bytes = await readFile(getSegmentPath(dir, 1));
      size = bytes.length;
      lines = [];
    });

    async function startAndRead() {
      const store = await openStore(dir, { printLine: (line) => lines.push(line) });
      const content = await readContent(store);
      await submit(store, createAppend("note-1", ["goes on"]));
      await store.close();
      await (await openStore(dir)).close();
      return content;
    }

    it("a start keeps a complete write after the acknowledged end", async () => {
      expect(await startAndRead()).to.deep.equal(complete);
      expect(lines).to.deep.equal([]);
    });

    it("a start drops and reports an incomplete write after the acknowledged end, wherever the write ends", async () => {
      for (const length of [border + 1, border + 39, border + 40, border + 41, border + 2_200, size - 1]) {
        await writeFile(getSegmentPath(dir, 1), bytes.subarray(0, length));
        const end = await readFile(getEndFilePath());
        lines = [];
        expect(await startAndRead(), `cut at ${length}`).to.deep.equal(acknowledged);
        expect(lines).to.have.length(1);
        expect(lines[0]).to.match(/dropped \d+ bytes at offset \d+, after position \d+/);
        await writeFile(getEndFilePath(), end);
      }
    });

    it("a start drops a write after the acknowledged end if the write ends in zeros", async () => {
      for (const zeros of [size - border, size - border - 40, 3_000, 600]) {
        const written = Buffer.from(bytes).fill(0, size - zeros);
        await writeFile(getSegmentPath(dir, 1), written);
        const end = await readFile(getEndFilePath());
        expect(await startAndRead(), `${zeros} zeros`).to.deep.equal(acknowledged);
        await writeFile(getEndFilePath(), end);
      }
    });

    it("a log does not start if a complete write after the acknowledged end is damaged", async () => {
      await flipBit(getSegmentPath(dir, 1), border + 500);
      expect(await getStartError()).to.include(`offset ${border}`);
    });
  });

  it("a crash while a segment is created loses no event", async () => {
    const segments = await createLog(300);
    const before = await changeAndRead(async () => undefined);
    await writeFile(`${getSegmentPath(dir, segments + 1)}.new`, "EVENTLOG");
    expect(await changeAndRead(async () => undefined)).to.deep.equal(before);

    // Simulates a crash after the creation of a segment, before or after its first write was acknowledged.
    const end = await readFile(getEndFilePath());
    const store = await openStore(dir, { segmentBytes: 1 });
    await submit(store, createAppend("note-1", ["in a new segment"]));
    await store.close();
    await truncate(getSegmentPath(dir, segments + 1), 64);
    expect(await getStartError()).to.include("were acknowledged");
    await writeFile(getEndFilePath(), end);
    expect(await changeAndRead(async () => undefined)).to.deep.equal(before);
    await changeAndRead((again) => appendEvents(again, 300));
    expect((await changeAndRead(async () => undefined)).forwards).to.have.length(600);
  });
});
