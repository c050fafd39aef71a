import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import { createLinkCode, redeemLinkCode, withdrawLink } from "../../../command/operations/animal-link-operations.ts";
import { closeClinic } from "../../../command/operations/clinic-operations.ts";
import { narrowInstallation, revokeInstallation } from "../../../command/operations/installation-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { deriveInstallationId, deriveSandboxClinicId } from "../../../shared/domain/events/ids.ts";
import { MAX_APPLICATION_REQUESTS_PER_MINUTE } from "../../../shared/partner-api/rate-limits.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { openDatabase } from "../../support/connections.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import {
  createApplication,
  createClinic,
  createPartnerWorld,
  createTestOperatorContext,
  installApplication,
  type PartnerWorld,
  sendRequest,
  sendTokenRequest,
} from "../../support/partner.ts";
import { awaitWaits, CHECKPOINT, type FeedPage, listAppointments, REBUILD_SQL, setUpFeed } from "./feed.ts";

const QUARANTINED = `${READ_MODEL_SCHEMA}.quarantined_stream`;

describe("the feed of an application", () => {
  const feed = setUpFeed<FeedPage>(
    "/application/events?",
    async ({ read }) => (await read()).events.length > 0,
    ({ token }) => ({ Authorization: `Bearer ${token}` }),
  );
  const { api, world, list, read, request } = feed;
  const awaitEvents = (count: number, query?: string, partner?: PartnerWorld) =>
    feed.awaitPage(({ events }) => events.length >= count, query, partner);
  const context = createTestOperatorContext();

  const revoke = ({ applicationId } = world, { clinicId }: Pick<PartnerWorld, "clinicId"> = world) =>
    revokeInstallation(api.command.log, { applicationId, clinicId, reason: null }, context);

  it("the feed reports the access at all clinics in order, also of clinics that revoked it or are closed", async () => {
    const { applicationId, clinicId, branchId } = world;
    const closedClinic = await createClinic(api.command.log);
    await installApplication(api.command.log, world, closedClinic);
    await narrowInstallation(api.command.log, { applicationId, clinicId, branchIds: [branchId] }, context);
    await revoke();
    await closeClinic(api.command.log, { clinicId: closedClinic.clinicId, reason: "moved" }, context);
    await revoke(world, closedClinic);
    const { events } = await awaitEvents(5);
    expect(events.map((event) => [event.type, event.clinicId])).to.deep.equal([
      ["installation.approved", clinicId],
      ["installation.approved", closedClinic.clinicId],
      ["installation.access_changed", clinicId],
      ["installation.revoked", clinicId],
      ["installation.revoked", closedClinic.clinicId],
    ]);
    expect(events[2]?.data).to.have.nested.property("installation.branchIds").deep.equal([branchId]);
    expect(events[3]).to.deep.include({ environment: "production", data: { installation: null } });
  });

  it("the pages of the feed contain each event once", async () => {
    await revoke();
    const all = await awaitEvents(2);
    const first = (await list("limit=1")).body;
    const second = (await list(`limit=1&after=${first.cursor}`)).body;
    expect([first.hasMore, second.hasMore]).to.deep.equal([true, false]);
    expect([...first.events, ...second.events]).to.deep.equal(all.events);
    const latest = { events: [], cursor: all.cursor, hasMore: false };
    expect(await read("after=latest")).to.deep.include(latest);
    expect(await read(`after=${all.cursor}`)).to.deep.include(latest);
  });

  it("the feed has the appointments of all clinics in their order, each since the approval and until its end", async () => {
    const [second, stranger] = [await createClinic(api.command.log), await createClinic(api.command.log)];
    await Promise.all([request(second), request(stranger)]);
    const first = await request();
    await installApplication(api.command.log, world, second);
    const others = [await request(second), await request(), await request(second)];
    await request(stranger);
    const all = await awaitEvents(6);
    expect(listAppointments(all)).to.deep.equal([first, ...others]);
    expect(all.events.map(({ clinicId }) => clinicId)).to.not.include(stranger.clinicId);
    const { events } = (await list(`limit=1&after=${(await read("limit=3")).cursor}`)).body;
    expect(events).to.deep.equal([all.events[3]]);
    await revoke(world, second);
    const after = await feed.awaitPage(({ events }) => events.at(-1)?.type === "installation.revoked");
    expect(listAppointments(after)).to.deep.equal([first, others[1]]);
    expect(after.events.filter(({ clinicId }) => clinicId === second.clinicId)).to.have.length(2);
  });

  it("the feed respects the branches, animals and scopes of each installation", async () => {
    const [branch, linked, narrow] = await Promise.all([1, 2, 3].map(() => createClinic(api.command.log)));
    await installApplication(api.command.log, world, branch!, { branchIds: [branch!.otherBranchId] });
    await installApplication(api.command.log, world, linked!, { animalAccess: "linked" });
    await installApplication(api.command.log, world, narrow!, { scopes: ["clinic:read", "webhooks:read"] });
    for (const clinic of [branch!, linked!, narrow!]) await request(clinic);
    const visible = await request({ ...branch!, branchId: branch!.otherBranchId });
    const page = await awaitEvents(5);
    expect(listAppointments(page)).to.deep.equal([visible]);
    expect(page.events.filter(({ type }) => type === "installation.approved")).to.have.length(4);
  });

  it("the feed reports a new link and its withdrawal", async () => {
    const { applicationId, clinicId, animalId } = world;
    const services = { log: api.command.log, linkCodes: createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS)) };
    const owner = { applicationId, clinicId };
    const codeRequest = { ...owner, animalId, covers: "appointments_read" as const, validMinutes: 60 };
    const { secrets } = await createLinkCode(services, codeRequest, context);
    const partnerContext = { ...context, clinicId, environment: world.environment };
    const { link } = await redeemLinkCode(services, { ...owner, ...secrets, sandbox: null }, partnerContext);
    await withdrawLink(api.command.log, { ...owner, animalId, requestedBy: "owner" }, context);
    const { events } = await awaitEvents(3);
    expect(events.map(({ type }) => type)).to.deep.equal([
      "installation.approved",
      "animal_link.created",
      "animal_link.withdrawn",
    ]);
    for (const event of events.slice(1)) expect(event.data).to.deep.equal({ link: { id: link.linkId, animalId } });
  });

  it("an application gets no events of other applications or of the other environment", async () => {
    const { cursor } = await read();
    const stranger = await createApplication(api.command.log);
    await installApplication(api.command.log, stranger, world);
    const { body } = await sendTokenRequest(api.command.url, stranger);
    const strangerWorld = { ...world, ...stranger, token: body.access_token };
    const sandboxWorld = await createPartnerWorld(api.command, "sandbox");
    await revoke();
    await awaitEvents(2);
    const own = await awaitEvents(1, "", strangerWorld);
    expect(own.events.map(({ type }) => type)).to.deep.equal(["installation.approved"]);
    const sandbox = await awaitEvents(2, "", sandboxWorld);
    const ownSandboxId = deriveSandboxClinicId(sandboxWorld.applicationId);
    expect(sandbox.events.map(({ clinicId }) => clinicId)).to.have.members([sandboxWorld.clinicId, ownSandboxId]);
    expect(new Set(sandbox.events.map(({ environment }) => environment))).to.deep.equal(new Set(["sandbox"]));
    for (const partner of [strangerWorld, sandboxWorld])
      expect((await list(`after=${cursor}`, partner)).body.error).to.equal("unknown_cursor");
    expect((await list("", { ...world, environment: "sandbox" })).status).to.equal(401);
  });

  it("a request waits for the next event of its application, and not for those of others", async () => {
    const { cursor } = await read();
    const stranger = await createPartnerWorld(api.command);
    const waiting = list(`after=${cursor}&wait=25`);
    await awaitWaits(api.queryUrl);
    await revoke(stranger, stranger);
    await awaitEvents(2, "", stranger);
    await awaitWaits(api.queryUrl);
    const id = await request();
    const { status, body } = await waiting;
    expect([status, listAppointments(body)]).to.deep.equal([200, [id]]);
  });

  describe("quarantined streams", () => {
    let admin: pg.Pool;

    before(() => {
      admin = openDatabase(api.database.urls.projection);
    });
    afterEach(() => admin.query(`DELETE FROM ${QUARANTINED}`));

    /** Deletes the rows of a stream, as a quarantine does. @returns a function that restores them */
    async function quarantine(stream: string, clinicId: string, table: string, condition: string) {
      const saved = `saved_${randomUUID().replaceAll("-", "")}`;
      const rows = `${READ_MODEL_SCHEMA}.${table}`;
      const firstPosition = table === "public_event" ? `(SELECT min(position) FROM ${saved})` : "NULL";
      await admin.query(
        `CREATE TABLE ${saved} AS SELECT * FROM ${rows} WHERE ${condition};
         BEGIN; DELETE FROM ${rows} WHERE ${condition};
         INSERT INTO ${QUARANTINED} (stream, revision, position, event_type, cause, clinic_id, since, events)
         SELECT '${stream}', 0, coalesce(${firstPosition}, position), 'Unknown', 'unknown', '${clinicId}', now(), 1
           FROM ${CHECKPOINT}; COMMIT`,
      );
      return () =>
        admin.query(
          `BEGIN; INSERT INTO ${rows} SELECT * FROM ${saved}; DELETE FROM ${QUARANTINED} WHERE stream = '${stream}';
           ${REBUILD_SQL}; COMMIT; DROP TABLE ${saved}`,
        );
    }
    const hideAppointment = (id: string, { clinicId }: { clinicId: string } = world) =>
      quarantine(`appointment-${id}`, clinicId, "public_event", `appointment_id = '${id}'`);

    it("an event that became visible late follows, with all later events, and once", async () => {
      const { cursor: before } = await read();
      const [late, passed] = [await request(), await request()];
      await awaitEvents(3);
      const end = await hideAppointment(late);
      const { cursor, events } = await read(`after=${before}`);
      expect(listAppointments({ events })).to.deep.equal([passed]);
      expect(await read(`after=${cursor}`)).to.deep.include({ events: [], cursor });
      await end();
      const next = await request();
      await awaitEvents(3, `after=${cursor}`);
      const page = await read(`after=${cursor}&limit=1`);
      expect([listAppointments(page), page.hasMore]).to.deep.equal([[late], true]);
      const last = await read(`after=${page.cursor}`);
      expect([listAppointments(last), last.hasMore]).to.deep.equal([[passed, next], false]);
      expect((await read(`after=${last.cursor}`)).events).to.deep.equal([]);
    });

    for (const name of ["installation", "clinic"])
      it(`the events of a clinic whose ${name} is quarantined follow, in pages and once`, async () => {
        const other = await createClinic(api.command.log);
        await installApplication(api.command.log, world, other);
        await awaitEvents(2);
        const { cursor: before } = await read();
        const id = name === "clinic" ? other.clinicId : deriveInstallationId(world.applicationId, other.clinicId);
        const end = await quarantine(`${name}-${id}`, other.clinicId, name, `${name}_id = '${id}'`);
        const hidden = [await request(other), await request(other), await request(other)];
        const own = await request();
        const { cursor } = await feed.awaitPage(({ events }) => events.length === 1, `after=${before}`);
        await end();
        const first = await read(`after=${cursor}&limit=2`);
        const last = await read(`after=${first.cursor}&limit=2`);
        expect([first, last].flatMap(listAppointments)).to.deep.equal([...hidden, own]);
        expect((await read(`after=${last.cursor}`)).events).to.deep.equal([]);
      });

    it("a waiting request returns an event that becomes visible late with the next event", async () => {
      const late = await request();
      await awaitEvents(2);
      const end = await hideAppointment(late);
      const { cursor } = await read();
      const waiting = list(`after=${cursor}&wait=25`);
      await awaitWaits(api.queryUrl);
      await end();
      const next = await request();
      expect(listAppointments((await waiting).body)).to.deep.equal([late, next]);
    });

    it("the events of many quarantined streams follow in pages, also if other streams are quarantined meanwhile", async () => {
      const hidden: string[] = [];
      for (let count = 0; count < 15; count += 1) hidden.push(await request());
      const passed = await request();
      await awaitEvents(17);
      const ends = [];
      for (const id of hidden) ends.push(await hideAppointment(id));
      let { cursor } = await read();
      for (const end of ends) await end();
      const found: string[] = [];
      for (let page = await read(`after=${cursor}&limit=4`); page.events.length > 0; ) {
        found.push(...listAppointments(page));
        for (let count = 0; count < 6; count += 1) await hideAppointment(randomUUID());
        cursor = page.cursor;
        page = await read(`after=${cursor}&limit=4`);
      }
      expect(found).to.deep.equal([...hidden, passed]);
    });

    it("an event follows that was hidden while the streams of many other applications were quarantined, too", async () => {
      const [late, passed] = [await request(), await request()];
      await awaitEvents(3);
      const end = await hideAppointment(late);
      for (let count = 0; count < 21; count += 1) await hideAppointment(randomUUID());
      const strangers = [];
      for (let count = 0; count < 10; count += 1) {
        const stream = `installation-${deriveInstallationId(randomUUID(), world.clinicId)}`;
        strangers.push(await quarantine(stream, world.clinicId, "installation", "false"));
      }
      const { cursor } = await read();
      await end();
      for (const endOther of strangers) await endOther();
      expect(listAppointments(await read(`after=${cursor}`))).to.deep.equal([late, passed]);
    });

    it("a quarantine that concerns no event of the application changes no cursor", async () => {
      const { cursor } = await read();
      const other = await createClinic(api.command.log);
      await hideAppointment(randomUUID(), { ...world, clinicId: other.clinicId });
      const installation = `installation-${deriveInstallationId(randomUUID(), other.clinicId)}`;
      await quarantine(installation, other.clinicId, "installation", "false");
      expect((await read(`after=${cursor}`)).cursor).to.equal(cursor);
    });
  });

  it("requests without the clinic header have a limit of their own", async () => {
    const statuses = new Set<number>();
    for (let count = 0; count <= MAX_APPLICATION_REQUESTS_PER_MINUTE; count += 1) statuses.add((await list()).status);
    expect([...statuses]).to.deep.equal([200, 429]);
    expect((await sendRequest("GET", `${api.queryUrl}/production/v1/events`, world.headers)).status).to.equal(200);
  });
});
