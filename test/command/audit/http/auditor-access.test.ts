import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pino from "pino";
import { type AuditorState, requireAuditor } from "../../../../command/audit/http/auditor-access.ts";
import { createApp } from "../../../../shared/http/app.ts";
import { type HttpServer, listen } from "../../../../shared/http/listen.ts";
import { type AuditWorld, startAuditWorld } from "../world.ts";

describe("a flood of invalid credentials", () => {
  let world: AuditWorld;
  let server: HttpServer;
  let readCount = 0;

  // A window ends at a full minute. The clock stands still, so that no window ends during a test.
  const { now } = performance;
  beforeEach(() => {
    const time = performance.now();
    performance.now = () => time;
  });
  afterEach(() => {
    performance.now = now;
  });

  before(async () => {
    world = await startAuditWorld();
    const read = ((stream: string) => {
      readCount += 1;
      return world.log.read(stream);
    }) as typeof world.log.read;
    const logger = pino({ level: "silent" });
    const app = createApp({ logger, retiredPaths: [], isProxyTrusted: true, checkReadiness: async () => ({}) });
    app.use(requireAuditor({ ...world.log, read }) as never);
    app.use((ctx) => {
      ctx.body = { id: (ctx.state as AuditorState).auditor.id };
    });
    server = await listen(app.callback(), "127.0.0.1", 0);
  });
  after(async () => {
    await server.close();
    await world.stop();
  });

  const request = async (credential: string, address: string) => {
    const headers = { Authorization: `Bearer ${credential}`, "X-Forwarded-For": address };
    const response = await fetch(server.url, { headers });
    await response.arrayBuffer();
    return response;
  };
  const createUnknownCredential = () => `aud_${randomUUID().replaceAll("-", "")}_${"A".repeat(43)}`;

  it("a flood of invalid credentials does not reach the event log and does not block auditors with valid credentials", async () => {
    const [knownAuditor, newAuditor] = [await world.registerAuditor(null), await world.registerAuditor(null)];
    const [floodAddress, otherAddress] = ["192.0.2.1", "192.0.2.2"];
    expect((await request(knownAuditor.credential, floodAddress)).status).to.equal(200);
    const statuses: number[] = [];
    for (let batch = 0; batch < 15; batch += 1) {
      const responses = await Promise.all(
        Array.from({ length: 20 }, () => request(createUnknownCredential(), floodAddress)),
      );
      statuses.push(...responses.map(({ status }) => status));
    }
    expect(new Set(statuses)).to.deep.equal(new Set([401]));
    const readCountBefore = readCount;
    const refusedResponse = await request(createUnknownCredential(), floodAddress);
    expect([refusedResponse.status, readCount - readCountBefore]).to.deep.equal([429, 0]);
    expect(Number(refusedResponse.headers.get("Retry-After"))).to.be.within(1, 60);
    expect((await request(knownAuditor.credential, floodAddress)).status).to.equal(200);
    expect((await request(newAuditor.credential, otherAddress)).status).to.equal(200);
    await knownAuditor.revoke();
    expect((await request(knownAuditor.credential, floodAddress)).status).to.equal(429);
    const readCountAfter = readCount;
    expect((await request(knownAuditor.credential, floodAddress)).status).to.equal(429);
    expect(readCount - readCountAfter, "reads for a revoked credential").to.equal(0);
  });

  it("requests above an auditor's limit do not reach the event log", async () => {
    const auditor = await world.registerAuditor(null);
    const spell = (index: number) => `${" ".repeat(index)}${auditor.credential}`;
    const statuses: number[] = [];
    for (let count = 0; count < 240; count += 20) {
      const responses = await Promise.all(Array.from({ length: 20 }, () => request(auditor.credential, "192.0.2.3")));
      statuses.push(...responses.map(({ status }) => status));
    }
    expect(new Set(statuses)).to.deep.equal(new Set([200]));
    const readCountBefore = readCount;
    for (let index = 0; index < 3; index += 1) {
      const response = await request(spell(index), "192.0.2.3");
      expect(response.status).to.equal(429);
      expect(Number(response.headers.get("Retry-After"))).to.be.within(1, 60);
    }
    expect(readCount - readCountBefore).to.equal(0);
  });
});
