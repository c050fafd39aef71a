import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import {
  AccessDeniedError,
  type EventStoreDBClient,
  jsonEvent,
  type ReadAllOptions,
  type ReadStreamOptions,
} from "@eventstore/db-client";
import { expect } from "chai";
import { exportClinic } from "../../../../command/audit/export/export-clinic.ts";
import { createAuditSigner } from "../../../../command/audit/export/signing.ts";
import { AuditIndex } from "../../../../command/audit/index/audit-index.ts";
import { toPurposeKey } from "../../../../command/audit/index/index-keys.ts";
import { readIndexCheckpoint } from "../../../../command/audit/index/index-store.ts";
import { readIndexedEvents } from "../../../../command/audit/index/read-rows.ts";
import { startAuditService } from "../../../../command/audit/start.ts";
import { withClient } from "../../../../deploy/local/servers/database-roles.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { readLogEnd } from "../../../../shared/eventstore/read-log.ts";
import { readConfig } from "../../../../shared/runtime/config.ts";
import { eventually } from "../../../support/eventually.ts";
import { parseMetrics, readSample } from "../../../support/metrics.ts";
import { startSeparateLog } from "../../../support/own-log.ts";
import { getRejection } from "../../../support/rejection.ts";
import { runAuditCommand } from "../cli-terminal.ts";
import {
  createClinicWithHistory,
  getTypes,
  parseLines,
  requestAudit,
  startAuditWorld,
  useAuditWorld,
} from "../world.ts";

describe("answers from the audit index", () => {
  const { world, history, auditor } = useAuditWorld();

  const request = (url: string, path: string) =>
    requestAudit(`${url}/audit/v1/${path}`, { Authorization: `Bearer ${auditor.credential}` });

  it("without Postgres, the events and the state of a stream are available, and other questions fail with 503", async () => {
    const service = await startAuditService({ ...world.env, DATABASE_URL: "postgres://nobody@127.0.0.1:1/clinic" });
    try {
      const { lines, end } = await request(service.url, `events?stream=${history.stream}`);
      expect([lines.length, end.count]).to.deep.equal([3, 3]);
      expect((await request(service.url, `state?stream=${history.stream}`)).body.state.status).to.equal("cancelled");
      for (const path of ["events", "accesses", "export"]) {
        const { status, body } = await request(service.url, `${path}?clinic=${history.clinicId}`);
        expect([path, status, body.error]).to.deep.equal([path, 503, "data_source_unavailable"]);
      }
    } finally {
      await service.stop();
    }
  });

  it("an index that is behind fails with 503 and its position, and the command line exits with 4", async () => {
    await withClient(world.database.urls.projection, async (client) => {
      await client.query("BEGIN; LOCK audit.checkpoint IN ROW EXCLUSIVE MODE; SELECT FROM audit.checkpoint FOR UPDATE");
      const { rows } = await client.query<{ position: string }>("SELECT position FROM audit.checkpoint");
      const { status, body, headers } = await auditor.request(`/audit/v1/events?clinic=${history.clinicId}`);
      expect([status, body.error, headers.get("Retry-After")]).to.deep.equal([503, "index_behind", "2"]);
      expect(body.details).to.deep.equal([
        { path: "position", message: `the index covers the log up to position ${rows[0]?.position}` },
      ]);
      const { code, errorLines } = await runAuditCommand(["events", "--clinic", history.clinicId], { env: world.env });
      expect([code, errorLines.length]).to.deep.equal([4, 1]);
      expect(errorLines[0]).to.match(/^audit: The audit index covers the log up to position \d+ of \d+\./);
    });
    expect((await auditor.request(`/audit/v1/events?clinic=${history.clinicId}`)).status).to.equal(200);
  });

  it("an index of another log answers no question, names the remedy, and counts as behind", async () => {
    const readLag = async (url: string) =>
      readSample(parseMetrics(await (await fetch(`${url}/metrics`)).text()), "audit_index_lag_seconds", {}) as number;
    const otherLog = await startSeparateLog();
    const other = await startAuditWorld({}, otherLog.eventstoreUrl, world.database);
    try {
      const otherAuditor = await other.registerAuditor(null);
      for (const path of ["events", "accesses"]) {
        const { status, body } = await otherAuditor.request(`/audit/v1/${path}?clinic=${history.clinicId}`);
        expect([path, status, body.error]).to.deep.equal([path, 503, "different_log"]);
        expect(body.details[0].message).to.match(/--adopt-log`.*audit rebuild-index`/);
      }
      const { code, errorLines } = await runAuditCommand(["events", "--clinic", history.clinicId], { env: other.env });
      expect([code, errorLines.length]).to.deep.equal([3, 1]);
      expect(errorLines[0]).to.match(/^audit: The event log is not the one that the audit index was built from/);
      const lagBefore = await readLag(world.url);
      await eventually(
        "the lag is reset if the index covers the log",
        async () => (await readLag(world.url)) < lagBefore,
      );
      await eventually("the lag grows if the log is another", async () => (await readLag(other.url)) > 15);
    } finally {
      await other.stop();
      await otherLog.stop();
    }
    expect((await auditor.request(`/audit/v1/events?clinic=${history.clinicId}`)).status).to.equal(200);
  });

  it("an answer does not read the log's own events, however many are between two events of a clinic", async () => {
    const clinicId = randomUUID();
    const append = (type: string, count: number) =>
      world.client.appendToStream(
        "laboratory",
        Array.from({ length: count }, () => jsonEvent({ type, data: { clinicId } })),
      );
    await append("Sample", 3);
    await append("$statistics", 500);
    await append("Sample", 3);
    const logEnd = await readLogEnd(world.client);
    await eventually("the index", async () => (await readIndexCheckpoint(world.pool)).position >= logEnd);
    let readCount = 0;
    async function* read(options?: ReadAllOptions) {
      for await (const item of world.client.readAll(options)) {
        readCount += 1;
        yield item;
      }
    }
    const readAll = (options?: ReadAllOptions) => Readable.from(read(options));
    const client: EventStoreDBClient = Object.create(world.client, { readAll: { value: readAll } });
    const query = { keys: [toPurposeKey("clinic", clinicId)], clinicIds: null };
    const found: unknown[] = [];
    for await (const { auditEvent } of readIndexedEvents({ client, index: world.index }, query))
      found.push(auditEvent.data);
    expect(found).to.deep.equal(Array(6).fill({ clinicId }));
    expect(readCount).to.be.below(100);
  });

  it("an event that the log no longer has is listed in its place with a problem, and an export of its clinic fails", async () => {
    const deleted = await createClinicWithHistory(world.log);
    const reader = await world.registerAuditor([deleted.clinicId]);
    const list = async () => (await reader.request(`/audit/v1/events?clinic=${deleted.clinicId}`)).lines;
    const linesBefore = await list();
    await world.client.tombstoneStream(deleted.stream);
    expect(await list(), "before the events are scavenged").to.deep.equal(linesBefore);
    // The embedded log cannot scavenge, so the rows get ids that it does not contain.
    await world.owner.query("UPDATE audit.event SET event_id = gen_random_uuid() WHERE stream = $1", [deleted.stream]);
    const lines = await list();
    expect(getTypes(lines)).to.deep.equal(getTypes(linesBefore));
    const missing = lines.filter(({ problem }) => problem === "missing_in_log");
    expect(missing.map(({ stream, revision, data }) => [stream, revision, data])).to.deep.equal(
      [0, 1, 2].map((revision) => [deleted.stream, revision, null]),
    );
    expect(missing[0].actor).to.deep.equal({ type: "operator", id: "test" });
    const { text } = await reader.request(`/audit/v1/export?clinic=${deleted.clinicId}`);
    const lastLine = parseLines(text).at(-1);
    const names = `revision 0 of ${deleted.stream}, revision 1 of`;
    expect([lastLine.error, lastLine.message?.includes(names)]).to.deep.equal(["events_missing", true]);
    const verified = await world.run(["verify", world.writeFile(text), "--key", world.keyFile], {});
    expect(verified.code, "verified").to.equal(3);
    const args = ["export", "--clinic", deleted.clinicId, "--out", world.nameFile()];
    const { code, errorLines } = await world.run(args);
    expect([code, errorLines[0]?.includes(names)]).to.deep.equal([3, true]);
    expect((await world.run([...args, "--read-log"])).code).to.equal(0);
  });

  it("an export of events that the log refuses to read fails and names them", async () => {
    const { clinicId, stream } = history;
    const { lines } = await auditor.request(`/audit/v1/events?stream=${stream}`);
    const positions = new Set(lines.map(({ position }) => BigInt(position)));
    const client = connectEventStore(world.env.EVENTSTORE_URL as string, "test");
    const [readStream, readAll] = [client.readStream.bind(client), client.readAll.bind(client)];
    const refusal = new AccessDeniedError(Object.assign(new Error("refused"), { code: 7 }) as never);
    const refuse = () => new Readable({ objectMode: true }).destroy(refusal);
    Object.assign(client, {
      readStream: (name: string, options: ReadStreamOptions) =>
        name === stream ? refuse() : readStream(name, options),
      readAll: (options: { fromPosition: { commit: bigint; prepare: bigint } }) =>
        positions.has(options.fromPosition.commit) ? refuse() : readAll(options),
    });
    // With many other events in between, the events are read stream by stream.
    const index = Object.assign(new AuditIndex(() => world.pool), { countBetween: async () => Number.MAX_VALUE });
    const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], world.env));
    const by = { exportedBy: { type: "operator", id: "ada" }, accessId: randomUUID(), now: "2100-01-01T00:00:00.000Z" };
    const options = { client, index, permittedClinicIds: null, signer, ...by };
    const readLines = async () => {
      for await (const line of await exportClinic({ clinic: clinicId }, options)) expect(line).not.to.contain(stream);
    };
    const error = await getRejection(readLines());
    await client.dispose();
    expect(error.message).to.contain(`revision 0 of ${stream}, revision 1 of`);
  });
});
