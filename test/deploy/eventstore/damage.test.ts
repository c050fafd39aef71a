import { randomInt } from "node:crypto";
import { copyFile, cp, readFile, rename, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { LogDamagedError, LogStartError } from "../../../deploy/local/eventstore/model/log-errors.ts";
import { collect, createEvent } from "../../conformance/log-under-test.ts";
import { startSeparateLog } from "../../support/own-log.ts";
import { getRejection } from "../../support/rejection.ts";
import { createClient, LogProcess, makeTemporaryDir } from "./log-process.ts";
import {
  appendEvents,
  changeAndRead,
  createAppendRequest,
  createLog,
  flipBit,
  getEndFilePath,
  getLogPath,
  getStartError,
  type LogContent,
  openStore,
  readContent,
  submit,
} from "./stored-log.ts";

/**
 * If acknowledged data is damaged, the log does not start, or reads of the data fail with a one-line error. At its
 * start, the log drops only data that was never acknowledged.
 */

describe("damaged files of the embedded log", () => {
  let dir: string;

  beforeEach(() => {
    dir = makeTemporaryDir();
  });

  it("a log with a flipped bit does not start, and the error states file, offset, position and remedy", async () => {
    await createLog(dir, 3_040);
    await flipBit(getLogPath(dir), 0.5);
    const { code, stdout, stderr } = await new LogProcess(["--dir", dir, "--port", "0"]).exitPromise;
    expect(code).to.equal(1);
    expect(stdout).to.equal("");
    expect(stderr.trimEnd().split("\n")).to.have.length(1);
    expect(stderr).to.include(getLogPath(dir));
    expect(stderr).to.match(/offset \d+, after position \d+: .+ restore its whole directory from a backup\.\n$/);
  });

  it("reads of a running log fail if they reach a damaged event, and an append whose decision needs the event stops the log", async () => {
    const lines: string[] = [];
    const server = await startSeparateLog({ dir, printLine: (line) => lines.push(line) });
    const client = createClient(server.port);
    const createNotedEvents = (stream: string) =>
      Array.from({ length: 30 }, (_, n) => jsonEvent({ type: "Noted", data: { stream, n } }));
    await client.appendToStream("before", createNotedEvents("before"));
    const offset = (await stat(getLogPath(dir))).size;
    const damagedEvents = createNotedEvents("damaged");
    const { position } = await client.appendToStream("damaged", damagedEvents, { expectedRevision: "no_stream" });
    await client.appendToStream("after", createNotedEvents("after"));
    await flipBit(getLogPath(dir), offset + 300);

    for (const read of [
      () => client.readStream("damaged"),
      () => client.readAll(),
      () => client.readAll({ direction: "backwards", fromPosition: "end" }),
    ]) {
      const { message } = await getRejection(collect(read()));
      expect(message)
        .to.include(getLogPath(dir))
        .and.to.match(/position \d+: .+ checksum .+ backup/);
      expect(lines.at(-1)).to.include(getLogPath(dir));
    }
    expect(await collect(client.readStream("before"))).to.have.length(30);
    expect(await collect(client.readStream("after"))).to.have.length(30);
    const appendResult = await client.appendToStream("after", createEvent(31));
    expect(appendResult.position!.commit > position!.commit).to.equal(true);
    // This append could be a retry. To recognise a retry, the log must read the ids of the stored events.
    await getRejection(client.appendToStream("damaged", damagedEvents, { expectedRevision: "no_stream" }));
    expect((await server.failurePromise).message).to.include(getLogPath(dir));
    await server.stop();
    expect(await getStartError(dir)).to.include(getLogPath(dir));
  });

  it("reads of a running log fail if the file is truncated or replaced with the file of another log", async () => {
    const store = await openStore(dir);
    await appendEvents(store, 400);
    const firstPath = getLogPath(dir);
    const firstBytes = await readFile(firstPath);
    await truncate(firstPath, 20_000);
    expect((await getRejection(readContent(store))).message).to.include(`${firstPath}, offset 20000`);
    const otherDir = makeTemporaryDir();
    const otherStore = await openStore(otherDir);
    await appendEvents(otherStore, 400);
    await writeFile(firstPath, await readFile(getLogPath(otherDir)), { flag: "r+" });
    expect((await getRejection(readContent(store))).message).to.include(firstPath);
    await writeFile(firstPath, firstBytes, { flag: "r+" });
    await readContent(store);
    await otherStore.close();
    await store.close();
  });

  it("a log does not start if a file is missing, or was replaced with a file of another log", async () => {
    await createLog(dir, 1_000);
    const otherDir = makeTemporaryDir();
    await createLog(otherDir, 1_000);
    const temporaryPath = join(dir, "aside");
    for (const getPath of [getLogPath, getEndFilePath]) {
      await rename(getPath(dir), temporaryPath);
      expect(await getStartError(dir)).to.include(`${getPath(dir)}: The file is missing`);
      await copyFile(getPath(otherDir), getPath(dir));
      expect(await getStartError(dir)).to.include("another log");
      await rename(temporaryPath, getPath(dir));
    }
    await (await openStore(dir)).close();
  });

  it("a log does not start if a write is replaced with a write to a copy of the log", async () => {
    await createLog(dir, 25);
    const copiedDir = makeTemporaryDir();
    await cp(dir, copiedDir, { recursive: true });
    const start = (await stat(getLogPath(dir))).size;
    let end = 0;
    for (const logDir of [copiedDir, dir])
      await changeAndRead(logDir, async (store) => {
        await submit(store, createAppendRequest("changed", [logDir === dir ? "a" : "b"]));
        end = (await stat(getLogPath(logDir))).size;
        await submit(store, createAppendRequest("last", ["acknowledged"]));
      });
    const bytes = await readFile(getLogPath(dir));
    (await readFile(getLogPath(copiedDir))).copy(bytes, start, start, end);
    await writeFile(getLogPath(dir), bytes);
    expect(await getStartError(dir)).to.include("The frame does not continue the previous frame");
  });

  it("a log that is truncated exactly between two acknowledged writes does not start", async () => {
    let firstByteCount = 0;
    await changeAndRead(dir, async (store) => {
      await appendEvents(store, 50);
      firstByteCount = (await stat(getLogPath(dir))).size;
      await submit(store, createAppendRequest("last", ["acknowledged"]));
    });
    await truncate(getLogPath(dir), firstByteCount);
    expect(await getStartError(dir)).to.match(/offset \d+, .+ all events up to position \d+ were acknowledged/);
  });

  describe("random damage", function () {
    this.timeout(600_000);
    let content: LogContent;

    beforeEach(async () => {
      content = await changeAndRead(dir, (store) => appendEvents(store, 400));
    });

    /** Damages the files at random places. Checks that each read fails or returns all acknowledged events. */
    async function readWithDamage(trialCount: number, read: () => Promise<LogContent>) {
      const paths = [getLogPath(dir), getEndFilePath(dir)];
      const files = await Promise.all(paths.map(async (path) => ({ path, bytes: await readFile(path) })));
      let refusalCount = 0;
      for (let trial = 0; trial < trialCount; trial += 1) {
        const damages: string[] = [];
        for (const { path, bytes } of files.filter(() => randomInt(3) > 0)) {
          const [damage, offset] = [randomInt(2) === 0 ? truncate : flipBit, randomInt(bytes.length)];
          damages.push(`${damage.name} ${path} at ${offset}`);
          await damage(path, offset);
        }
        const damagedContent = await read().catch((error: unknown) => {
          if (!(error instanceof LogDamagedError) && !(error instanceof LogStartError)) throw error;
          expect(error.message, "one line").not.to.include("\n");
          refusalCount += 1;
          return content;
        });
        // Chai compares more slowly, so it only describes a difference.
        if (!isDeepStrictEqual(damagedContent, content)) expect(damagedContent, damages.join()).to.deep.equal(content);
        for (const { path, bytes } of files) await writeFile(path, bytes, { flag: "r+" });
      }
      expect(refusalCount).to.be.at.least(trialCount / 2);
      expect(await read()).to.deep.equal(content);
    }

    it("a randomly damaged log either refuses to start or contains all acknowledged events", () =>
      readWithDamage(400, () => changeAndRead(dir, async () => undefined)));

    it("a read of a running log with random damage fails or returns all acknowledged events", async () => {
      const store = await openStore(dir);
      await readWithDamage(200, () => readContent(store));
      await store.close();
    });
  });
});

describe("the acknowledged end of the embedded log", () => {
  let dir: string;

  beforeEach(() => {
    dir = makeTemporaryDir();
  });

  it("a log does not start if the acknowledged end is damaged", async () => {
    await createLog(dir, 100);
    await flipBit(getEndFilePath(dir), 20);
    expect(await getStartError(dir)).to.include(`${getEndFilePath(dir)}: The file's checksum`);
  });

  describe("after the acknowledged end", () => {
    let acknowledgedContent: LogContent;
    let completeContent: LogContent;
    let endByte: number;
    let size: number;
    let bytes: Buffer;
    let lines: string[];

    /** Creates a log whose last write is on disk, but not yet covered by the acknowledged end. */
    beforeEach(async () => {
      acknowledgedContent = await changeAndRead(dir, (store) => appendEvents(store, 50));
      endByte = (await stat(getLogPath(dir))).size;
      await copyFile(getEndFilePath(dir), join(dir, "aside"));
      completeContent = await changeAndRead(dir, (store) =>
        submit(store, createAppendRequest("last", ["x".repeat(2_000), "y".repeat(2_000)])),
      );
      await rename(join(dir, "aside"), getEndFilePath(dir));
      bytes = await readFile(getLogPath(dir));
      size = bytes.length;
      lines = [];
    });

    async function startAndRead() {
      const store = await openStore(dir, { printLine: (line) => lines.push(line) });
      const content = await readContent(store);
      await submit(store, createAppendRequest("note-1", ["goes on"]));
      await store.close();
      await (await openStore(dir)).close();
      return content;
    }

    it("a starting log keeps a complete write that is not recorded as acknowledged", async () => {
      expect(await startAndRead()).to.deep.equal(completeContent);
      expect(lines).to.deep.equal([]);
    });

    it("a starting log drops and reports an incomplete last write, wherever the write was cut off", async () => {
      for (const length of [endByte + 1, endByte + 39, endByte + 40, endByte + 41, endByte + 2_200, size - 1]) {
        await writeFile(getLogPath(dir), bytes.subarray(0, length));
        const endFileBytes = await readFile(getEndFilePath(dir));
        lines = [];
        expect(await startAndRead(), `cut at ${length}`).to.deep.equal(acknowledgedContent);
        expect(lines).to.have.length(1);
        expect(lines[0]).to.match(/dropped \d+ bytes at offset \d+, after position \d+/);
        await writeFile(getEndFilePath(dir), endFileBytes);
      }
    });

    it("a starting log drops an unacknowledged write that ends with zeros, as after a power loss", async () => {
      for (const zeroByteCount of [size - endByte, size - endByte - 40, 3_000, 600]) {
        const writtenBytes = Buffer.from(bytes).fill(0, size - zeroByteCount);
        await writeFile(getLogPath(dir), writtenBytes);
        const endFileBytes = await readFile(getEndFilePath(dir));
        expect(await startAndRead(), `${zeroByteCount} zeros`).to.deep.equal(acknowledgedContent);
        await writeFile(getEndFilePath(dir), endFileBytes);
      }
    });

    it("a log does not start if a complete write after the acknowledged end is damaged", async () => {
      await flipBit(getLogPath(dir), endByte + 500);
      expect(await getStartError(dir)).to.include(`offset ${endByte}`);
    });
  });
});
