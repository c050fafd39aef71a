/** Migration of log directories that an earlier release created with LevelDB. */
import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { ClassicLevel } from "classic-level";
import { writeSafeInteger } from "../../../deploy/local/eventstore/model/bytes.ts";
import { computePosition, encodeRecord } from "../../../deploy/local/eventstore/model/record.ts";
import { startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { collect, getRejection } from "../../conformance/log-under-test.ts";
import { dumpLog } from "./log-dump.ts";
import { createClient, createTemporaryDir, LogProcess } from "./log-process.ts";
import { createProposedEvent, openStore, readContent } from "./stored-log.ts";

/** Log directory that the last release with LevelDB created, and a dump of the data that clients read from it. */
const FIXTURE_DIR = join(import.meta.dirname, "leveldb-fixture");

type Dump = Awaited<ReturnType<typeof dumpLog>>;
type Database = ClassicLevel<Buffer, Buffer>;

function openDatabase(dir: string): Database {
  return new ClassicLevel<Buffer, Buffer>(dir, { keyEncoding: "buffer", valueEncoding: "buffer" });
}

/** Encodes a key of the LevelDB format: a letter, an optional stream name with its length, and a number. */
function encodeKey(prefix: string, number: number, name = ""): Buffer {
  const key = Buffer.alloc(prefix === "r" ? 11 + Buffer.byteLength(name) : 9);
  key.write(prefix, 0);
  if (prefix === "r") key.writeUInt16BE(Buffer.byteLength(name), 1);
  key.write(name, prefix === "r" ? 3 : 1);
  writeSafeInteger(key, number, key.length - 8);
  return key;
}

/** Creates a database in the format of the last release with LevelDB. It contains events of one stream. */
async function createDatabase(dir: string, eventCount: number): Promise<void> {
  const database = openDatabase(dir);
  await database.put(Buffer.from("v"), Buffer.from("1"));
  let position = 0;
  for (let revision = 0; revision < eventCount; ) {
    const batch = database.batch();
    for (const batchEnd = Math.min(eventCount, revision + 1_000); revision < batchEnd; revision += 1) {
      const event = createProposedEvent(`number ${revision}`);
      position = computePosition(position, "note-1", event);
      const record = encodeRecord(event, {
        stream: "note-1",
        revision,
        position,
        createdAt: 1_700_000_000_000,
      });
      const entry = Buffer.alloc(28);
      writeSafeInteger(entry, position, 0);
      entry.writeUInt32BE(record.length, 8);
      entry.write(event.id.replaceAll("-", ""), 12, "hex");
      batch.put(encodeKey("e", position), record).put(encodeKey("r", revision, "note-1"), entry);
    }
    await batch.write();
  }
  await database.put(Buffer.from("hnote-1"), Buffer.from(JSON.stringify([eventCount - 1, 0, 0, 0, 0])));
  await database.close();
}

describe("a log directory of an earlier release", function () {
  this.timeout(120_000);
  let dir: string;
  let remove: () => Promise<void>;
  let expectedDump: Dump;

  before(async () => {
    expectedDump = JSON.parse(await readFile(join(FIXTURE_DIR, "expected.json"), "utf8")) as Dump;
  });
  beforeEach(async () => {
    ({ dir, remove } = await createTemporaryDir());
    await cp(join(FIXTURE_DIR, "log"), dir, { recursive: true });
  });
  afterEach(() => remove());

  /** Starts the log, which migrates the database, and dumps all data. */
  async function startAndDump(lines: string[] = []): Promise<Dump> {
    const server = await startLogServer({
      dir,
      host: "127.0.0.1",
      port: 0,
      printLine: (line) => lines.push(line),
    });
    const client = createClient(server.port);
    const dump = await dumpLog(client, Object.keys(expectedDump.byStream));
    await client.dispose();
    await server.stop();
    return JSON.parse(JSON.stringify(dump)) as Dump;
  }

  async function changeDatabase(change: (database: Database) => Promise<unknown>): Promise<void> {
    const database = openDatabase(dir);
    await change(database);
    await database.close();
  }

  /** Returns the key and value of an event, given its number in the log. */
  async function getEventEntry(database: Database, index: number): Promise<[Buffer, Buffer]> {
    const entries = await database.iterator({ gt: Buffer.from("e"), lt: Buffer.from("f") }).all();
    return entries.at(index)!;
  }

  it("migration keeps positions, ids, revisions, metadata, truncation and deletions", async () => {
    const lines: string[] = [];
    expect(await startAndDump(lines)).to.deep.equal(expectedDump);
    expect(lines[0]).to.include(`Migrating the log in ${dir}`);
    expect(lines.at(-1)).to.include(`Migrated ${expectedDump.all.length} events`);
    const secondLines: string[] = [];
    expect(await startAndDump(secondLines)).to.deep.equal(expectedDump);
    expect(secondLines, "migrated once").to.deep.equal([]);
  });

  it("a migrated log recognises retried appends and deleted streams", async () => {
    await startAndDump();
    const server = await startLogServer({ dir, host: "127.0.0.1", port: 0 });
    const client = createClient(server.port);
    const firstEvents = expectedDump.all.filter((event) => String(event[0]).includes(" plain ")).slice(0, 3);
    const retryEvents = firstEvents.map((event) => jsonEvent({ id: String(event[1]), type: "Noted", data: {} }));
    const { position } = await client.appendToStream("plain", retryEvents, { expectedRevision: "no_stream" });
    expect(`${position?.commit}/`).to.equal(String(firstEvents[2]?.[0]).slice(0, String(position?.commit).length + 1));
    await getRejection(client.appendToStream("tombstoned", jsonEvent({ type: "Noted", data: {} })));
    const newEvent = jsonEvent({ type: "Noted", data: {} });
    const appendResult = await client.appendToStream("soft-deleted", newEvent, { expectedRevision: "no_stream" });
    expect(appendResult.nextExpectedRevision).to.equal(2n);
    await client.dispose();
    await server.stop();
  });

  it("a migrated log applies `$maxAge` to the time at which an event was first stored, also after a restart", async () => {
    await rm(dir, { recursive: true });
    await createDatabase(dir, 3);
    const hourSeconds = 3600;
    for (const [maxAge, eventCount] of [
      [100 * 365 * 24 * hourSeconds, 3],
      [hourSeconds, 0],
    ] as const) {
      const server = await startLogServer({ dir, host: "127.0.0.1", port: 0 });
      const client = createClient(server.port);
      await client.setStreamMetadata("note-1", { maxAge });
      await client.dispose();
      await server.stop();
      const restartedServer = await startLogServer({ dir, host: "127.0.0.1", port: 0 });
      const nextClient = createClient(restartedServer.port);
      expect(await collect(nextClient.readStream("note-1"))).to.have.length(eventCount);
      await nextClient.dispose();
      await restartedServer.stop();
    }
  });

  it("migration moves the LevelDB files and prevents earlier releases from starting with an empty log", async () => {
    await startAndDump();
    expect((await readdir(dir)).sort()).to.deep.equal(["CURRENT", "events", "leveldb"]);
    const { cause } = await getRejection(openDatabase(dir).open());
    expect(String(cause)).to.include("this-log-is-kept-in-segment-files-which-need-a-newer-release");
    const formerDatabase = openDatabase(join(dir, "leveldb"));
    expect((await formerDatabase.keys({ gt: Buffer.from("e"), lt: Buffer.from("f") }).all()).length).to.equal(
      expectedDump.all.length,
    );
    await formerDatabase.close();
  });

  it("a database with a missing event is not migrated, and the error contains the position", async () => {
    for (const index of [0, 7, -1]) {
      await rm(dir, { recursive: true });
      await cp(join(FIXTURE_DIR, "log"), dir, { recursive: true });
      let position = 0;
      await changeDatabase(async (database) => {
        const [key] = await getEventEntry(database, index);
        position = key.readUIntBE(3, 6);
        await database.del(key);
      });
      const { message } = await getRejection(openStore(dir));
      expect(message).to.match(index === -1 ? new RegExp(`Position ${position}: `) : /Events are missing between/);
      expect(message)
        .to.match(/Position \d+: .+ backup\.$/)
        .and.not.to.include("\n");
      expect(await readdir(dir)).not.to.include.members(["events"]);
      await changeDatabase(async (database) => expect((await getEventEntry(database, 3)).length).to.equal(2));
    }
  });

  it("a database with an event under a wrong key is not migrated", async () => {
    await changeDatabase(async (database) => {
      const [key, value] = await getEventEntry(database, 5);
      value[4] = (value[4] ?? 0) ^ 1;
      await database.put(key, value);
    });
    expect((await getRejection(openStore(dir))).message).to.match(/Position \d+: The event does not match its key/);
  });

  it("a LevelDB database without the file CURRENT is not migrated", async () => {
    await rm(join(dir, "CURRENT"));
    expect((await getRejection(openStore(dir))).message).to.include(`${join(dir, "CURRENT")}: The file is missing`);
  });

  it("a LevelDB database whose file CURRENT is damaged is not treated as migrated", async () => {
    for (const content of ["", "MANIFES", "this-log-is-kept"]) {
      await writeFile(join(dir, "CURRENT"), content);
      expect((await getRejection(openStore(dir))).message).to.include(`${join(dir, "CURRENT")}: The file refers to`);
    }
  });

  it("a database that exceeds the log's limits is not migrated and stays unchanged", async () => {
    const limits = { maxEvents: 1_000_000, maxStreams: 1_000_000, maxSegments: 1_000 };
    for (const lowLimit of [{ maxEvents: 5 }, { maxStreams: 2 }, { maxSegments: 0 }]) {
      const lines: string[] = [];
      const options = { limits: { ...limits, ...lowLimit }, printLine: (line: string) => lines.push(line) };
      expect((await getRejection(openStore(dir, options))).message).to.match(/limit/);
      expect(await readdir(dir)).not.to.include.members(["events"]);
      expect(lines.join("\n")).not.to.include("Migrated");
    }
    expect(await startAndDump()).to.deep.equal(expectedDump);
  });

  it("a database that an earlier release has open is not migrated", async () => {
    const database = openDatabase(dir);
    await database.open();
    expect((await getRejection(openStore(dir))).message).to.include("is in use by another process");
    await database.close();
    expect(await startAndDump()).to.deep.equal(expectedDump);
  });

  it("a starting log completes a migration that crashed between two steps", async () => {
    // Simulates a crash during the copy.
    await mkdir(join(dir, "events.new"));
    await writeFile(join(dir, "events.new", "00000001.segment"), "EVENTLOG");
    expect(await startAndDump()).to.deep.equal(expectedDump);

    // Simulates a crash after the copy was completed, but before the database was marked as migrated.
    for (const name of await readdir(join(dir, "leveldb"))) await rename(join(dir, "leveldb", name), join(dir, name));
    await rm(join(dir, "leveldb"), { recursive: true });
    expect(await startAndDump()).to.deep.equal(expectedDump);

    // Simulates a crash before the files of the database were moved.
    for (const name of await readdir(join(dir, "leveldb"))) {
      if (name !== "CURRENT") await rename(join(dir, "leveldb", name), join(dir, name));
    }
    expect(await startAndDump()).to.deep.equal(expectedDump);
    expect((await readdir(dir)).sort()).to.deep.equal(["CURRENT", "events", "leveldb"]);
  });

  it("a log does not start if an earlier release changed the database after the migration", async () => {
    await startAndDump();
    for (const name of await readdir(join(dir, "leveldb"))) await rename(join(dir, "leveldb", name), join(dir, name));
    await changeDatabase(async (database) => {
      const [key, value] = await getEventEntry(database, -1);
      writeSafeInteger(key, key.readUIntBE(3, 6) + 100, 1);
      await database.put(key, value);
    });
    expect((await getRejection(openStore(dir))).message).to.include("contains two different logs");
  });

  it("a starting log repeats a migration that SIGKILL interrupted", async () => {
    await rm(dir, { recursive: true });
    await createDatabase(dir, 20_000);
    const log = new LogProcess(["--dir", dir, "--port", "0"]);
    await log.waitForOutput(/so far/);
    await log.kill("SIGKILL");
    expect(await readdir(dir))
      .to.include("events.new")
      .and.not.to.include("events");
    const store = await openStore(dir);
    expect((await readContent(store)).forwardEvents).to.have.length(20_000);
    expect(store.getStreamState("note-1").lastRevision).to.equal(19_999);
    await store.close();
  });
});
