import { randomUUID } from "node:crypto";
import http from "node:http";
import path from "node:path";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { type LogServer, startLogServer } from "../../../deploy/local/eventstore/server.ts";
import { eventually } from "../../support/eventually.ts";
import { makeTestRoot } from "../../support/stack.ts";
import { type AuditWorld, requestAudit, startAuditWorld } from "./world.ts";

describe("a long list of events", () => {
  let world: AuditWorld;
  const clinicId = randomUUID();
  let dir: string;
  let server: LogServer;

  // This suite needs its own event log, because it stops the log.
  before(async () => {
    dir = path.join(makeTestRoot(), "log");
    server = await startLogServer({ dir, host: "127.0.0.1", port: 0, shouldSync: false });
    world = await startAuditWorld({}, `esdb://127.0.0.1:${server.port}?tls=false`);
    const data = { clinicId, blob: "x".repeat(60_000) };
    for (let count = 0; count < 24; count += 1) {
      const events = Array.from({ length: 10 }, () => jsonEvent({ type: "Sample", data }));
      await world.client.appendToStream(`laboratory-${count}`, events);
    }
  });
  after(async () => {
    await world?.stop();
    await server?.stop();
  });

  const eventsPath = `/audit/v1/events?clinic=${clinicId}`;
  const createCredentialHeader = async () => {
    const { credential } = await world.registerAuditor(null);
    return { Authorization: `Bearer ${credential}` };
  };
  const request = (headers: Record<string, string>, parameters = "") =>
    requestAudit(`${world.url}${eventsPath}${parameters}`, headers);
  /** Sends a request and does not read the response. The server stops sending when the buffers are full. */
  const startResponse = (headers: Record<string, string>) =>
    new Promise<http.IncomingMessage>((resolve, reject) => {
      http.get(`${world.url}${eventsPath}`, { headers, agent: false }, resolve).on("error", reject);
    });

  it("three auditors whose clients read nothing do not stop a fourth, and each can send more requests", async () => {
    const slowHeaders = await Promise.all(Array.from({ length: 3 }, createCredentialHeader));
    const openResponses: http.IncomingMessage[] = [];
    for (const headers of [...slowHeaders, ...slowHeaders]) openResponses.push(await startResponse(headers));
    for (const headers of [await createCredentialHeader(), ...slowHeaders])
      expect((await request(headers)).end?.count).to.equal(240);
    for (const response of openResponses) response.destroy();
  });

  it("an auditor whose client reads nothing has a limited number of responses, until the client disconnects", async () => {
    const headers = await createCredentialHeader();
    const openResponses: http.IncomingMessage[] = [];
    for (let count = 0; count < 9; count += 1) openResponses.push(await startResponse(headers));
    const { statusCode, headers: lastHeaders } = openResponses.at(-1) as http.IncomingMessage;
    expect([statusCode, lastHeaders["retry-after"]]).to.deep.equal([429, "1"]);
    for (const response of openResponses) response.destroy();
    await eventually("a response is free", async () => (await request(headers, "&limit=1")).status === 200);
  });

  it("if the event log fails, a list is cut off, and further queries return 503 until the log is available", async () => {
    const headers = await createCredentialHeader();
    const response = await startResponse(headers);
    expect(response.statusCode).to.equal(200);
    await server.stop();
    let responseEnd = "";
    const errorCode = await (async () => {
      for await (const chunk of response) responseEnd = (responseEnd + chunk).slice(-1_000);
    })().catch((error: NodeJS.ErrnoException) => error.code);
    expect([errorCode, responseEnd.includes('{"end":')]).to.deep.equal(["ECONNRESET", false]);
    const refusedResponse = await request(headers);
    expect([refusedResponse.status, refusedResponse.body.error]).to.deep.equal([503, "event_log_unavailable"]);
    expect(Number(refusedResponse.headers.get("Retry-After"))).to.be.greaterThan(0);
    const readyResponse = await fetch(`${world.url}/health/ready`);
    // The response must not reveal the address of the event log.
    expect([readyResponse.status, await readyResponse.json()]).to.deep.equal([
      503,
      { ok: false, parts: { eventstore: "unavailable" } },
    ]);
    const { port } = server;
    server = await startLogServer({ dir, host: "127.0.0.1", port, shouldSync: false });
    await eventually("the service returns 200 again", async () => (await request(headers, "&limit=1")).status === 200);
  });
});
