/** Tests of the supervisor and its files on a real disk that becomes full and is freed later. */
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { connect } from "nats";
import pg from "pg";
import { prepareNats } from "../../../deploy/local/servers/nats.ts";
import { buildSuperuserUrl, preparePostgres } from "../../../deploy/local/servers/postgres.ts";
import { openLocalRoot } from "../../../deploy/local/setup/local-root.ts";
import { openPidRegistry } from "../../../deploy/local/setup/pid-registry.ts";
import { findFreePorts } from "../../../deploy/local/setup/ports.ts";
import { getLocalPaths } from "../../../deploy/local/setup/project.ts";
import { createSavedFile } from "../../../deploy/local/setup/saved-file.ts";
import type { Component, ComponentContext } from "../../../deploy/local/supervisor/component.ts";
import { eventually } from "../../support/eventually.ts";
import { mountSmallDisk, type SmallDisk } from "../../support/small-disk.ts";

/** Time limit in milliseconds for a restart. The delay before a restart is up to 15 s, and the machine may be busy. */
const RECOVERY_TIMEOUT_MS = 120_000;

describe("on a full disk", function () {
  this.timeout(240_000);
  let disk: SmallDisk | undefined;
  let component: Component | undefined;

  afterEach(async () => {
    await component?.stop();
    disk?.remove();
    disk = component = undefined;
  });

  function createContext(): { context: ComponentContext; lines: string[] } {
    const lines: string[] = [];
    const log = (line: string) => lines.push(line);
    const paths = getLocalPaths(disk!.folder);
    return { context: { paths, pids: openPidRegistry(paths.pids, log), log, shouldRestart: true }, lines };
  }

  it("a saved file keeps its content while the disk is full, and gets the newest content when the disk has space", async function () {
    disk = mountSmallDisk(this, 1);
    const file = path.join(disk.folder, "pids.json");
    const lines: string[] = [];
    const savedFile = createSavedFile(file, (line) => lines.push(line));
    savedFile.save("first");
    disk.fill();
    savedFile.save("x".repeat(10_000));
    savedFile.save("y".repeat(10_000));
    expect(fs.readFileSync(file, "utf8")).to.equal("first");
    disk.free();
    await eventually("the file has the newest content", () => fs.readFileSync(file, "utf8") === "y".repeat(10_000));
    expect(lines).to.have.length(2);
    expect(lines[0]).to.include(`Cannot write ${file}, will retry: ENOSPC`);
    expect(lines[1]).to.equal("pids.json was written after a retry.");
  });

  it("a start on a full disk fails with the reason and does not prevent the next start", async function () {
    disk = mountSmallDisk(this, 1);
    const root = path.join(disk.folder, "root");
    fs.mkdirSync(path.join(root, "logs"), { recursive: true });
    disk.fill();
    const rootError = await openLocalRoot(root, () => undefined).catch((error: unknown) => error);
    expect(rootError).to.be.instanceOf(Error).and.have.property("message").which.includes("ENOSPC");
    disk.free();
    const localRoot = await openLocalRoot(root, () => undefined);
    localRoot.release();
  });

  it("if JetStream hangs after a failed write, nats-server is restarted and keeps all confirmed messages", async function () {
    disk = mountSmallDisk(this, 24);
    const port = (await findFreePorts()).nats;
    const { context, lines } = createContext();
    const healthTimings = { intervalMs: 500, greetingIntervalMs: 300, maxGreetings: 10, greetingTimeoutMs: 10_000 };
    component = await prepareNats(context, port, healthTimings);
    await component.start();
    const publish = async (bytes: number) => {
      const connection = await connect({ servers: `127.0.0.1:${port}`, reconnect: false });
      try {
        const manager = await connection.jetstreamManager({ timeout: 2_000 });
        await manager.streams.add({ name: "sample", subjects: ["sample"] }).catch(() => undefined);
        const data = new Uint8Array(bytes);
        return (await connection.jetstream().publish("sample", data, { timeout: 2_000 })).seq;
      } finally {
        await connection.close();
      }
    };
    let lastSequence = await publish(1_000);
    disk.fill();
    const firstPid = component.pid;
    await eventually("a write fails", async () => {
      const sequence = await publish(500_000).catch(() => undefined);
      lastSequence = sequence ?? lastSequence;
      return sequence === undefined;
    });
    await eventually("nats-server restarts", () => component!.pid !== firstPid, RECOVERY_TIMEOUT_MS);
    expect(lines.join("\n")).to.match(/Restarting nats \(pid \d+\): JetStream /);
    disk.free();
    const nextSequence = await eventually(
      "JetStream confirms messages",
      () => publish(500_000).catch(() => undefined),
      RECOVERY_TIMEOUT_MS,
    );
    expect(nextSequence).to.be.greaterThan(lastSequence);
  });

  it("on a full disk, Postgres is restarted until the disk has space, and keeps all committed data", async function () {
    disk = mountSmallDisk(this, 160);
    const port = (await findFreePorts()).postgres;
    const { context, lines } = createContext();
    const password = "superuser";
    component = await preparePostgres(context, { port, password, isEphemeral: false });
    await component.start();
    const query = async (text: string) => {
      const connectionString = buildSuperuserUrl(port, password);
      const client = new pg.Client({
        connectionString,
        connectionTimeoutMillis: 5_000,
        query_timeout: 10_000,
      });
      client.on("error", () => undefined);
      try {
        await client.connect();
        return (await client.query(text)).rows;
      } finally {
        await client.end().catch(() => undefined);
      }
    };
    await query("CREATE TABLE sample (number int, text text)");
    let insertCount = 0;
    const insert = () =>
      query(`INSERT INTO sample SELECT ${insertCount}, repeat('x', 1000) FROM generate_series(1, 2000)`);
    const hasDied = () => lines.some((line) => /^postgres \(pid \d+\) died/.test(line));
    const deadline = Date.now() + RECOVERY_TIMEOUT_MS;
    // Without a pause, so that no checkpoint frees segments of the write-ahead log in time.
    while (!hasDied()) {
      expect(Date.now(), "Postgres ends because it cannot write its log").to.be.below(deadline);
      disk.fill();
      await insert().then(
        () => insertCount++,
        () => undefined,
      );
      // The write needs a new segment of the write-ahead log. If the disk has no space for the segment, Postgres shuts
      // down.
      await query("SELECT pg_logical_emit_message(true, 'sample', ''), pg_switch_wal()").catch(() => undefined);
    }
    disk.free();
    await eventually(
      "Postgres accepts writes",
      () =>
        insert().then(
          () => true,
          () => undefined,
        ),
      RECOVERY_TIMEOUT_MS,
    );
    const [row] = await query("SELECT count(DISTINCT number)::int AS numbers FROM sample");
    expect(row!.numbers).to.be.within(insertCount, insertCount + 1);
  });
});
