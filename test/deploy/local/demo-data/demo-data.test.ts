import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { jwtVerify } from "jose";
import { hashClientSecret } from "../../../../command/operations/application-operations.ts";
import { seedDemoData } from "../../../../deploy/local/demo-data/demo-data.ts";
import { type LogServer, startLogServer } from "../../../../deploy/local/eventstore/server.ts";
import type { DemoAccess } from "../../../../deploy/local/stack/stack-file.ts";
import type { CatalogEvent } from "../../../../shared/domain/events/catalog.ts";
import { parseStoredEvent } from "../../../../shared/domain/events/stored-event.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { makeTestRoot } from "../../../support/stack.ts";

const portal = {
  portalJwtSecret: "a secret of the portal that is long enough",
  portalJwtIssuer: "http://127.0.0.1:8080/auth/v1",
  portalCookieName: "sb-local-auth-token",
};
const now = Date.parse("2026-05-05T09:10:00Z");

describe("demo data", () => {
  let root: string;
  let server: LogServer;
  const lines: string[] = [];
  let first: DemoAccess;

  // The tests share one log, so each test sees the events of all earlier tests.
  before(async () => {
    await startEmpty();
    first = await seed();
  });
  after(() => server.stop());

  async function startEmpty(): Promise<void> {
    root = makeTestRoot();
    server = await startLogServer({ dir: path.join(root, "log"), host: "127.0.0.1", port: 0, shouldSync: false });
  }

  const credentialsFile = () => path.join(root, "demo-credentials.json");
  const eventstoreUrl = () => `esdb://127.0.0.1:${server.port}?tls=false`;
  const seed = (log = (line: string) => void lines.push(line), at = now): Promise<DemoAccess> =>
    seedDemoData({
      ...portal,
      ...{ eventstoreUrl: eventstoreUrl(), credentialsFile: credentialsFile(), log, now: at },
    });

  /** Returns all events of the log, parsed by the event catalog. */
  async function events(): Promise<CatalogEvent[]> {
    const client = connectEventStore(eventstoreUrl(), "test");
    const found: CatalogEvent[] = [];
    for await (const { event } of client.readAll()) {
      const parsed = event && !event.type.startsWith("$") ? parseStoredEvent(event as never) : undefined;
      if (parsed) found.push(parsed);
    }
    await client.dispose();
    return found;
  }
  const ofType = <Type extends CatalogEvent["type"]>(all: CatalogEvent[], type: Type) =>
    all.filter((event): event is Extract<CatalogEvent, { type: Type }> => event.type === type);

  it("seedDemoData creates all demo data, and a second call appends nothing", async () => {
    const all = await events();
    expect(ofType(all, "ClinicRegistered").map(({ data }) => data.environment)).to.have.members([
      "production",
      "production",
      "production",
      "sandbox",
    ]);
    expect(ofType(all, "ClinicSuspended")).to.have.length(1);
    expect(ofType(all, "ClinicRegistered").filter(({ data }) => data.demoExpiresAt !== null)).to.have.length(1);
    expect(ofType(all, "CustomerRegistered").length).to.be.within(290, 320);
    expect(ofType(all, "AnimalRegistered").length).to.be.within(440, 470);
    expect(new Set(ofType(all, "StaffMemberHired").map(({ data }) => data.role)).size).to.equal(5);
    expect(ofType(all, "InstallationApproved")).to.have.length(2);
    expect(lines.at(-1)).to.match(/^demo data: (\d+) of \1 steps$/);

    const second = await seed(undefined, now + 3_600_000);
    expect(await events()).to.have.length(all.length);
    expect(second.applications).to.deep.equal(first.applications);
    expect(second.portalUsers[0]?.cookie).not.to.equal(first.portalUsers[0]?.cookie);
  });

  it("seedDemoData returns valid client secrets and portal sessions", async () => {
    const { applications, portalUsers } = first;
    const all = await events();
    expect(fs.statSync(credentialsFile()).mode & 0o777).to.equal(0o600);
    expect(applications.map(({ environment }) => environment)).to.deep.equal(["production", "sandbox"]);
    for (const { clientId, clientSecret, clinicId, branchId, animalId } of applications) {
      const issued = ofType(all, "CredentialIssued").find(({ data }) => data.applicationId === clientId);
      expect(issued?.data.secretHash).to.equal(hashClientSecret(clientSecret));
      const approved = ofType(all, "InstallationApproved").find(({ data }) => data.applicationId === clientId);
      expect(approved?.data.clinicId).to.equal(clinicId);
      const facts = ofType(all, "SandboxReset").flatMap(({ data }) => data.facts) as CatalogEvent[];
      const animal = ofType([...all, ...facts], "AnimalRegistered").find(({ data }) => data.animalId === animalId);
      expect(animal?.data.clinicId).to.equal(clinicId);
      const branch = ofType(all, "BranchOpened").find(({ data }) => data.branchId === branchId);
      expect(branch?.data.clinicId).to.equal(clinicId);
    }
    const userIds = ofType(all, "MembershipGranted").map(({ data }) => data.userId);
    expect(portalUsers).to.have.length(16);
    for (const { cookie } of portalUsers) {
      const value = /^sb-local-auth-token=base64-([\w-]+)$/.exec(cookie)?.[1] ?? "";
      const session = JSON.parse(Buffer.from(value, "base64url").toString());
      const key = new TextEncoder().encode(portal.portalJwtSecret);
      const { payload } = await jwtVerify(session.access_token, key, {
        issuer: portal.portalJwtIssuer,
        audience: "authenticated",
        currentDate: new Date(now + 6 * 86_400_000),
      });
      expect(userIds).to.include(payload.sub);
    }
  });

  it("seedDemoData replaces and revokes client secrets if the file with the secrets is lost", async () => {
    fs.rmSync(credentialsFile());
    const second = await seed();
    const all = await events();
    expect(ofType(all, "CredentialRevoked")).to.have.length(2);
    expect(ofType(all, "CredentialIssued")).to.have.length(4);
    for (const [index, { clientSecret }] of second.applications.entries()) {
      expect(clientSecret).not.to.equal(first.applications[index]?.clientSecret);
    }
  });

  it("seedDemoData completes an interrupted run without duplicates, even hours later", async () => {
    await server.stop();
    await startEmpty();
    const failure = await seed(() => {
      throw new Error("interrupted");
    }).catch((error: Error) => error);
    expect(String(failure)).to.contain("interrupted");
    const before = (await events()).length;
    await seed(undefined, now + 5 * 3_600_000);
    const all = await events();
    expect(before).to.be.within(1, all.length - 1);
    const registered = ofType(all, "AnimalRegistered").map(({ data }) => data.animalId);
    expect(new Set(registered).size).to.equal(registered.length);
    const distinct = new Set(all.map((event) => JSON.stringify(event.data) + event.type));
    expect(distinct.size).to.equal(all.length);
  });
});
