import { copyFile, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type EventStoreDBClient, jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import * as appends from "../../../shared/eventstore/append.ts";
import {
  EMPTY_STREAM,
  LogUnavailableError,
  REQUEST_TIMEOUT_MS,
  toAppendError,
} from "../../../shared/eventstore/log.ts";
import { collect, createEvent } from "../../conformance/log-under-test.ts";
import { getRejection } from "../../support/rejection.ts";
import { mountSmallDisk, type SmallDisk } from "../../support/small-disk.ts";
import { LogProcess, makeTemporaryDir } from "./log-process.ts";
import {
  appendEvents,
  createAppendRequest,
  createProposedEvent,
  openStore,
  readContent,
  submit,
} from "./stored-log.ts";

const MAX_FILE_KIB = 1024;

describe("the embedded log on a failing disk", () => {
  it("a disk failure stops the log with a one-line error, and a restarted log has all acknowledged events", async () => {
    const dir = makeTemporaryDir();
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

    const restartedLog = await LogProcess.start(dir);
    const restartedClient = restartedLog.createClient();
    const events = await collect(restartedClient.readStream("full"));
    expect(events.length).to.be.within(acknowledgedCount, acknowledgedCount + 1);
    expect(events.map(({ event }) => (event!.data as { n: number }).n)).to.deep.equal(events.map((_, n) => n));
    await restartedLog.kill();
  });

  it("after a failed flush and a restart, a power loss loses no event that the restarted log has returned", async () => {
    const dir = makeTemporaryDir();
    const logPath = join(dir, "events", "log");
    const diskPath = join(dir, "disk");
    const lossyDisk = pathToFileURL(join(PROJECT_FOLDER, "test/deploy/eventstore/lossy-disk.mjs")).href;
    const lossyEnv = { NODE_OPTIONS: `--import=${lossyDisk}`, LOSSY_FILE: logPath, LOSSY_DISK: diskPath };
    const writer = new Writer();
    const log = await LogProcess.start(dir, 0, undefined, { ...lossyEnv, LOSSY_FLUSH: "5" });
    const client = log.createClient();
    await writer.appendUntilFailure(client);
    expect((await log.exitPromise).stderr).to.match(/^The embedded log stopped: EIO.+\n$/);
    expect(writer.acknowledgedIds).to.have.length(3);

    const readIds = async (restartedLog: LogProcess) => {
      const restartedClient = restartedLog.createClient();
      const events = await collect(restartedClient.readStream("large"));
      await restartedLog.kill("SIGKILL");
      return events.map(({ event }) => event?.id);
    };
    const ids = await readIds(await LogProcess.start(dir, 0, undefined, lossyEnv));
    expect(ids.slice(0, 3)).to.deep.equal(writer.acknowledgedIds);
    await copyFile(diskPath, logPath);
    expect(await readIds(await LogProcess.start(dir))).to.deep.equal(ids);
  });

  it("the log prints a disk failure even if the log cannot be closed afterwards", async () => {
    const dir = makeTemporaryDir();
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
  });
});

const DISK_MIB = 16;
const PAGE_BYTES = 4096;

/** Appends events to one stream and records the ids of acknowledged events. */
class Writer {
  readonly acknowledgedIds: string[] = [];

  /** Appends events of 20 kB until an append fails. Returns the error of that append. */
  async appendUntilFailure(client: EventStoreDBClient): Promise<Error> {
    for (;;) {
      try {
        await this.append(client);
      } catch (error) {
        return toAppendError(error) as Error;
      }
    }
  }

  async append(client: EventStoreDBClient): Promise<void> {
    const event = createProposedEvent("x".repeat(20_000));
    const revision = BigInt(this.acknowledgedIds.length) + EMPTY_STREAM;
    await appends.appendEvents(client, "large", revision, [event], REQUEST_TIMEOUT_MS);
    this.acknowledgedIds.push(event.id);
  }

  /** Checks that the stream holds exactly the acknowledged events. */
  async verify(client: EventStoreDBClient): Promise<void> {
    const storedEvents = await collect(client.readStream("large"));
    expect(storedEvents.map(({ event }) => event?.id)).to.deep.equal(this.acknowledgedIds);
  }
}

describe("the embedded log on a full disk", function () {
  this.timeout(180_000);
  let disk: SmallDisk;
  let dir: string;

  before(function () {
    disk = mountSmallDisk(this, DISK_MIB);
    dir = join(disk.folder, "log");
  });
  afterEach(async () => {
    await rm(dir, { recursive: true, force: true });
    disk.free();
  });
  after(() => disk?.remove());

  it("on a full disk, appends fail with UNAVAILABLE, reads work, and acknowledged events survive SIGKILL", async () => {
    const writer = new Writer();
    let log = await LogProcess.start(dir);
    let client = log.createClient();
    for (let n = 0; n < 20; n += 1) await writer.append(client);

    for (let round = 0; round < 2; round += 1) {
      // In the second round, the disk has space for only a part of a frame.
      disk.fill(round * PAGE_BYTES);
      const error = await writer.appendUntilFailure(client);
      expect(error, "the services answer 503").to.be.instanceOf(LogUnavailableError);
      const largeEvent = jsonEvent({ type: "Large", data: { text: "x".repeat(20_000) } });
      const batchError = await getRejection(client.appendToStream("other", largeEvent));
      expect(batchError).to.include({ type: "deadline-exceeded" });
      await writer.verify(client);
      disk.free();
      await writer.append(client);
      await writer.verify(client);
    }
    disk.fill(PAGE_BYTES);
    await writer.appendUntilFailure(client);
    const { stderr } = await log.kill("SIGKILL");
    expect(stderr.match(/The disk is full/g)).to.have.length(3);
    expect(stderr.match(/The disk has space again/g)).to.have.length(2);

    log = await LogProcess.start(dir);
    client = log.createClient();
    await writer.verify(client);
    expect(await writer.appendUntilFailure(client)).to.be.instanceOf(LogUnavailableError);
    disk.free();
    await writer.append(client);
    await log.kill("SIGKILL");

    log = await LogProcess.start(dir);
    client = log.createClient();
    await writer.verify(client);
    await client.appendToStream("other", createEvent(0));
    expect((await log.kill()).stderr).to.equal("");
  });

  it("if a group of appends fails on a full disk, a retry writes each append exactly once", async () => {
    const store = await openStore(dir);
    const storedWrite = { ...createAppendRequest("note-0", ["stored"]), expectedRevision: -1 };
    await submit(store, storedWrite);
    await appendEvents(store, 99);
    disk.fill();
    const writes = Array.from({ length: 50 }, (_, n) => createAppendRequest(`waiting-${n}`, ["x".repeat(1_000)]));
    const firstResults = await Promise.all(writes.map((write) => submit(store, write)));
    expect(firstResults.map(({ outcome }) => outcome)).to.include("disk-full");
    expect(await submit(store, storedWrite), "a retry").to.include({ outcome: "written", revision: 0 });
    disk.free();
    const secondResults = await Promise.all(writes.map((write) => submit(store, write)));
    expect(secondResults.every((result) => result.outcome === "written" && result.revision === 0)).to.equal(true);
    const content = await readContent(store);
    expect(content.forwardEvents).to.have.length(150);
    await store.close();
    const reopenedStore = await openStore(dir);
    expect(await readContent(reopenedStore)).to.deep.equal(content);
    await reopenedStore.close();
  });

  it("if a full disk prevents the creation of a log, the log can be created when the disk has space", async () => {
    disk.fill();
    const { message } = await getRejection(openStore(dir));
    expect(message)
      .to.match(/cannot be opened: ENOSPC/)
      .and.not.to.include("\n");
    disk.free();
    await (await openStore(dir)).close();
  });
});
