import { randomBytes, randomUUID } from "node:crypto";
import { type EventStoreDBClient, jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { AuditIndex, DifferentLogError, requireSameLog } from "../../../../command/audit/index/audit-index.ts";
import { toPurposeKey } from "../../../../command/audit/index/index-keys.ts";
import { addToIndex, CheckpointMovedError, readIndexCheckpoint } from "../../../../command/audit/index/index-store.ts";
import { runIndex } from "../../../../command/audit/index/run-index.ts";
import { TreeEdge } from "../../../../command/audit/tree/merkle-tree.ts";
import { withClient } from "../../../../deploy/local/servers/database-roles.ts";
import { appendEvents } from "../../../../shared/eventstore/append.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { readLogEnd } from "../../../../shared/eventstore/read-log.ts";
import { createPool } from "../../../../shared/postgres/pool.ts";
import { createLogger } from "../../../../shared/runtime/logger.ts";
import { eventually } from "../../../support/eventually.ts";
import { createMigratedDatabase } from "../../../support/migrated-database.ts";
import { type OwnLog, startSeparateLog } from "../../../support/own-log.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { getRejection } from "../../../support/rejection.ts";
import type { TestDatabase } from "../../../support/stack.ts";
import { createClinicWithHistory } from "../world.ts";

describe("the audit index", () => {
  const logger = createLogger("test", "silent");
  let database: TestDatabase;
  let ownLog: OwnLog;
  let client: EventStoreDBClient;
  let pool: ReturnType<typeof createPool>;
  const stopFunctions: (() => Promise<unknown>)[] = [];

  before(async () => {
    database = await createMigratedDatabase();
    ownLog = await startSeparateLog();
    client = connectEventStore(ownLog.eventstoreUrl, "test");
    const url = database.urls.audit;
    pool = createPool({ url, applicationName: "test", size: 4, statementTimeoutMs: 20_000, logger });
    stopFunctions.push(
      () => pool.end(),
      () => client.dispose(),
      () => ownLog.stop(),
      () => database.drop(),
    );
  });
  after(async () => {
    for (const stop of stopFunctions) await stop();
  });

  /** Runs the given number of fillers concurrently until the index covers the log. */
  async function fill(count = 1, fillerPool = pool, fillerLogger = logger): Promise<void> {
    const controller = new AbortController();
    const options = { client, pool: fillerPool, databaseUrl: database.urls.audit, logger: fillerLogger };
    const runs = Array.from({ length: count }, () => runIndex(options, controller.signal));
    try {
      await eventually(
        "the index covers the log",
        async () => (await readIndexCheckpoint(pool)).position === (await readLogEnd(client)),
      );
    } finally {
      controller.abort();
      await Promise.all(runs);
    }
  }

  const listRows = async () => (await pool.query("SELECT * FROM audit.event ORDER BY position")).rows;

  it("every event has a row, also one of another program, one that no release can read, and one with odd texts", async () => {
    const { clinicId } = await createClinicWithHistory(createPlainLog(client));
    const longName = randomBytes(3_000).toString("base64");
    await client.appendToStream(longName, jsonEvent({ type: "AuditorRegistered", data: {} }));
    await client.appendToStream("laboratory", jsonEvent({ type: "Sam\u0000ple", data: { sample: randomUUID() } }));
    const event = { id: randomUUID(), type: "Odd", contentType: "application/json" };
    const damaged = Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x00]);
    await appendEvents(
      client,
      `appointment-${randomUUID()}`,
      -1n,
      [{ ...event, data: damaged, metadata: damaged }],
      10_000,
    );
    const metadata = {
      $correlationId: "x\u0000".repeat(5_000),
      $causationId: "none",
      actor: { type: "robot", id: "\u0000".repeat(9_000), note: "secret" },
      clinicId: "no clinic",
      occurredAt: "2026-99-99T99:99:99.999Z",
      schemaVersion: 1,
    };
    await client.appendToStream("odd", jsonEvent({ type: "Odd", data: { clinicId }, metadata }));
    await client.tombstoneStream("odd");
    await fill();
    const rows = await listRows();
    const [sample, unreadable, odd] = rows.slice(-3);
    expect([sample.type, sample.leaf_number, sample.clinics]).to.deep.equal(["Sam\ufffdple", null, []]);
    expect([unreadable.type, unreadable.leaf_hash.length, unreadable.event_id]).to.deep.equal(["Odd", 32, event.id]);
    expect(odd).to.deep.include({ occurred_at: metadata.occurredAt, actor: `robot:${"\ufffd".repeat(294)}` });
    expect(odd.clinics).to.have.members([clinicId, "1a95f40e-c154-8606-827f-81cb8c8fb2f3"]);
    expect(rows.flatMap(({ leaf_number }) => leaf_number ?? [])).to.deep.equal(
      Array.from({ length: rows.length - 2 }, (_, number) => BigInt(number)),
    );
    expect(rows.at(-4)).to.deep.include({ stream: longName, type: "AuditorRegistered" });
    expect(JSON.stringify(rows, (_, value) => String(value))).not.to.contain("secret");
  });

  it("a filler continues after the last one, and several at once add each event once", async () => {
    const countBefore = (await listRows()).length;
    const { clinicId } = await createClinicWithHistory(createPlainLog(client));
    await fill(3);
    const { rows } = await pool.query<{ type: string }>(
      "SELECT type FROM audit.subject JOIN audit.event USING (position) WHERE subject = $1 ORDER BY position",
      [toPurposeKey("clinic", clinicId)],
    );
    expect(rows.map(({ type }) => type)).to.include.members(["ClinicRegistered", "AppointmentCancelled"]);
    const positions = (await listRows()).map(({ position }) => position);
    expect([positions.length > countBefore, new Set(positions).size]).to.deep.equal([true, positions.length]);
  });

  it("a batch that Postgres cannot add within the time limit is added in parts", async () => {
    await withClient(database.urls.projection, (owner) =>
      owner.query(`CREATE FUNCTION audit.be_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF (SELECT count(*) FROM added) > 3 THEN PERFORM pg_sleep(60); END IF; RETURN NULL; END $$;
        CREATE TRIGGER be_slow AFTER INSERT ON audit.event REFERENCING NEW TABLE AS added
          FOR EACH STATEMENT EXECUTE FUNCTION audit.be_slow()`),
    );
    const settings = { url: database.urls.audit, applicationName: "test", size: 4, statementTimeoutMs: 1_000, logger };
    const slowPool = createPool(settings);
    stopFunctions.unshift(() => slowPool.end());
    await createClinicWithHistory(createPlainLog(client));
    const warnings: unknown[] = [];
    await fill(
      1,
      slowPool,
      Object.assign(createLogger("test", "silent"), { warn: (line: unknown) => warnings.push(line) }),
    );
    expect(warnings, "the filler did not start again").to.deep.equal([]);
    await withClient(database.urls.projection, (owner) => owner.query("DROP FUNCTION audit.be_slow CASCADE"));
    const { rows } = await pool.query("SELECT position, leaf_number FROM audit.event ORDER BY position");
    const leafNumbers = rows.flatMap(({ leaf_number }) => leaf_number ?? []);
    expect(leafNumbers).to.deep.equal(leafNumbers.map((_, number) => BigInt(number)));
  });

  it("the checkpoint moves only from where it is", async () => {
    const checkpoint = await readIndexCheckpoint(pool);
    const edge = await TreeEdge.read(new AuditIndex(() => pool).readHashes, Number(checkpoint.leafCount));
    for (const moved of [{ position: checkpoint.position - 1n }, { tableId: checkpoint.tableId + 1 }]) {
      const outdated = { ...checkpoint, ...moved };
      const error = await getRejection(addToIndex(pool, outdated, edge, [], checkpoint.position + 1n));
      expect(error).to.be.instanceOf(CheckpointMovedError);
    }
    expect(await readIndexCheckpoint(pool)).to.deep.equal(checkpoint);
  });

  it("a log that ends before the checkpoint is a different one, even if it holds the last leaf", async () => {
    const checkpoint = await readIndexCheckpoint(pool);
    expect(await requireSameLog(client, checkpoint)).to.equal(checkpoint.position);
    const error = await getRejection(requireSameLog(client, { ...checkpoint, position: checkpoint.position + 1n }));
    expect(error).to.be.instanceOf(DifferentLogError);
  });

  it("nothing is added from another log and no question is answered, until the index is reset", async () => {
    const rowsBefore = await listRows();
    const otherLog = await startSeparateLog();
    const otherClient = connectEventStore(otherLog.eventstoreUrl, "test");
    stopFunctions.unshift(() => otherClient.dispose());
    stopFunctions.splice(1, 0, () => otherLog.stop());
    await createClinicWithHistory(createPlainLog(otherClient));
    const controller = new AbortController();
    const lines: string[] = [];
    const recordingLogger = Object.assign(createLogger("test", "silent"), {
      error: (_: unknown, text: string) => lines.push(text),
    });
    const options = { client: otherClient, pool, databaseUrl: database.urls.audit, logger: recordingLogger };
    const run = runIndex(options, controller.signal);
    await eventually("the difference is reported", () => lines.length > 0);
    expect([lines[0], await listRows()]).to.deep.equal(["The audit index is not filled.", rowsBefore]);
    const index = new AuditIndex(() => pool);
    const error = await getRejection(index.awaitLogEnd(otherClient));
    expect(error).to.be.instanceOf(DifferentLogError);
    expect(error.message).to.match(/`clinic projection rebuild --adopt-log`.*`clinic audit rebuild-index`/);
    expect(await index.awaitLogEnd(client), "with the original log").to.equal(await readLogEnd(client));
    await withClient(database.urls.projection, (owner) => owner.query("CALL audit.reset_index()"));
    const otherLogEnd = await readLogEnd(otherClient);
    await eventually(
      "the index covers the other log",
      async () => (await readIndexCheckpoint(pool)).position >= otherLogEnd,
    );
    expect(await index.awaitLogEnd(otherClient)).to.equal(otherLogEnd);
    controller.abort();
    await run;
  });
});
