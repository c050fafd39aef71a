import { randomUUID } from "node:crypto";
import http from "node:http";
import path from "node:path";
import { expect } from "chai";
import { startAudit } from "../../../command/audit/start.ts";
import { registerAuditor } from "../../../command/operations/auditor-operations.ts";
import { type LogServer, startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import type { RunningService } from "../../../shared/runtime/run-service.ts";
import { eventually } from "../../support/eventually.ts";
import { operatorContext } from "../../support/partner.ts";
import { makeTestRoot } from "../../support/stack.ts";
import { type AuditWorld, requestAudit, startAuditWorld } from "./world.ts";

/** Ten events of 60 kB. @returns their stream */
async function appendLong(log: EventLog, clinicId: string): Promise<string> {
  const { correlationId, actor } = operatorContext();
  const place = { clinicId, branchId: randomUUID(), resourceType: "room", name: "Room", capacity: 1 };
  const events = Array.from({ length: 10 }, () => {
    const metadata = { blob: "x".repeat(60_000) };
    const data = { resourceId: randomUUID(), ...place, timezone: "Europe/Zurich", metadata };
    return {
      id: randomUUID(),
      event: { type: "ResourceAdded" as const, data },
      metadata: {
        ...{ $correlationId: correlationId, $causationId: correlationId, clinicId, environment: null },
        ...{ actor, occurredAt: "2026-05-04T08:00:00.000Z" },
      },
    };
  });
  const stream = `resource-${randomUUID()}`;
  await log.append(stream, -1n, events);
  return stream;
}

describe("a list of events that is long", () => {
  let world: AuditWorld;
  const clinicId = randomUUID();
  const ends: (() => Promise<unknown>)[] = [];
  let dir: string;
  let server: LogServer;
  let service: RunningService;
  let log: EventLog;

  // A log of its own: it is stopped, and nobody else must read what it holds.
  before(async () => {
    world = await startAuditWorld();
    dir = path.join(makeTestRoot(), "log");
    server = await startLogServer({ dir, host: "127.0.0.1", port: 0, sync: false });
    const url = `esdb://127.0.0.1:${server.port}?tls=false`;
    const client = connectEventStore(url, "test");
    log = createEventLog(client);
    for (let part = 0; part < 24; part += 1) await appendLong(log, clinicId);
    service = await startAudit({ ...world.env, EVENTSTORE_URL: url });
    ends.push(
      () => service.stop(),
      () => client.dispose(),
      () => server.stop(),
      () => world.stop(),
    );
  });
  after(async () => {
    for (const end of ends) await end();
  });

  const question = `/audit/v1/events?clinic=${clinicId}`;
  const newcomer = async () => {
    const input = { auditorId: randomUUID(), name: "Ada", clinicIds: null, expiresAt: null };
    const { credential } = await registerAuditor(log, input, operatorContext());
    return { Authorization: `Bearer ${credential}` };
  };
  const ask = (headers: Record<string, string>, more = "") =>
    requestAudit(`${service.url}${question}${more}`, headers);
  /** An answer that nobody reads: it stands still when the buffers are full. */
  const begin = (headers: Record<string, string>) =>
    new Promise<http.IncomingMessage>((resolve, reject) => {
      http.get(`${service.url}${question}`, { headers, agent: false }, resolve).on("error", reject);
    });

  it("is limited to a few at a time, and ends when its client disconnects", async () => {
    const [one, other] = [await newcomer(), await newcomer()];
    const underWay = [await begin(one), await begin(one)];
    const { status, headers, body } = await ask(one);
    expect([status, body.error, headers.get("Retry-After")]).to.deep.equal([429, "too_many_scans", "5"]);
    expect((await ask(other)).end.count).to.equal(240);
    for (const answer of underWay) answer.destroy();
    await eventually("the slots are free", async () => (await ask(one, "&limit=1")).status === 200);
  });

  it("does not bypass the limit: only a few states are folded at a time", async () => {
    const headers = await newcomer();
    const stream = await appendLong(log, randomUUID());
    const state = () => requestAudit(`${service.url}/audit/v1/state?stream=${stream}`, headers);
    const answers = await Promise.all(Array.from({ length: 40 }, state));
    const told = answers.map(({ status, body }) => (status === 200 ? "told" : body.error));
    expect(new Set(told)).to.deep.equal(new Set(["told", "too_many_scans"]));
    expect((await state()).status).to.equal(200);
  });

  it("reports its progress on request", async () => {
    const { status, end } = await ask(await newcomer(), "&progress=true&limit=5");
    expect([status, end.count]).to.deep.equal([200, 5]);
  });

  it("is cut if the event log fails; then 503 with Retry-After until the log is available", async () => {
    const headers = await newcomer();
    const response = await begin(headers);
    expect(response.statusCode).to.equal(200);
    await server.stop();
    let end = "";
    const broken = await (async () => {
      for await (const chunk of response) end = (end + chunk).slice(-1_000);
    })().catch((error: NodeJS.ErrnoException) => error.code);
    expect([broken, end.includes('{"end":')]).to.deep.equal(["ECONNRESET", false]);
    const refused = await ask(headers);
    expect([refused.status, refused.body.error]).to.deep.equal([503, "event_log_unavailable"]);
    expect(Number(refused.headers.get("Retry-After"))).to.be.greaterThan(0);
    const ready = await fetch(`${service.url}/health/ready`);
    // Where the log is, is nobody's business who asks.
    expect([ready.status, await ready.json()]).to.deep.equal([
      503,
      { ok: false, parts: { eventstore: "unavailable" } },
    ]);
    const { port } = server;
    server = await startLogServer({ dir, host: "127.0.0.1", port, sync: false });
    await eventually(
      "the service answers again",
      async () => (await ask(headers, "&limit=1")).status === 200,
    );
  });
});
