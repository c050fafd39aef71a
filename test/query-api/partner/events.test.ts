import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { narrowInstallation, revokeInstallation } from "../../../command/operations/installation-operations.ts";
import { formatEventCursor } from "../../../query-api/partner/cursor.ts";
import { startQueryApi } from "../../../query-api/start.ts";
import { deriveInstallationId } from "../../../shared/domain/events/ids.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { RunningService } from "../../../shared/runtime/run-service.ts";
import { openDatabase } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createApplication,
  createPartnerWorld,
  createTestOperatorContext,
  installApplication,
  type PartnerResponse,
  sendRequest,
  sendTokenRequest,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import { queryEnvironment } from "../../support/query-environment.ts";
import { awaitWaits, type FeedPage, listAppointments, setUpFeed } from "./feed.ts";

describe("the feed of events", () => {
  const feed = setUpFeed<FeedPage>("/events?", async ({ list }) => (await list()).status === 200);
  const { api, world, list, read, request, confirm } = feed;
  const awaitEvents = (count: number, query?: string) => feed.awaitPage(({ events }) => events.length >= count, query);

  it("the feed has the events of a clinic since the approval, in their order, with the ids of their webhooks", async () => {
    const id = await request();
    await confirm(id);
    const { events, cursor } = await awaitEvents(3);
    expect(events.map(({ type }) => type)).to.deep.equal([
      "installation.approved",
      "appointment.created",
      "appointment.updated",
    ]);
    const stored = await api.command.log.read(`appointment-${id}`);
    expect(events.slice(1).map((event) => event.id)).to.deep.equal(stored.map((event) => event.id));
    expect(events[2]?.data).to.deep.include({
      change: { causedBy: "clinic", fields: { status: { from: "requested", to: "confirmed" } } },
    });
    expect(JSON.stringify(events)).to.not.contain("not told");
    expect(await read(`after=${cursor}`)).to.deep.include({ events: [], cursor, hasMore: false });
  });

  it("the pages of the feed contain each event once", async () => {
    for (let count = 0; count < 5; count += 1) await request();
    const all = await awaitEvents(6);
    const pages = [await read("limit=2")];
    while (pages.at(-1)!.hasMore) pages.push(await read(`limit=2&after=${pages.at(-1)!.cursor}`));
    expect(pages.flatMap(({ events }) => events)).to.deep.equal(all.events);
    expect((await read("after=latest")).cursor).to.equal(all.cursor);
  });

  it("a cursor that the log does not confirm, or of another clinic, returns 422", async () => {
    const { events, cursor } = await awaitEvents(1);
    const other = await createPartnerWorld(api.command);
    await eventually("the installation", async () => (await list("", other)).status === 200);
    const [position = ""] = Buffer.from(cursor, "base64url").toString().split(" ");
    const place = { position, eventId: events[0]!.id, subjectId: world.clinicId, memory: "" };
    const moved = formatEventCursor({ ...place, position: String(BigInt(position) + 1n) });
    const unknown = formatEventCursor({ ...place, eventId: randomUUID() });
    const [badGap, otherGap] = ["1:2:3", "9223372036854775808:1"].map((memory) =>
      formatEventCursor({ ...place, memory }),
    );
    for (const [after, partner] of [
      [moved, world],
      [unknown, world],
      [cursor, other],
    ] as const) {
      const { status, body } = await list(`after=${after}`, partner);
      expect([status, body.error]).to.deep.equal([422, "unknown_cursor"]);
    }
    for (const after of ["x", `${cursor}x`, "", badGap, otherGap]) {
      const { status, body } = await list(`after=${after}`);
      expect([status, body.error], after).to.deep.equal([400, "invalid_cursor"]);
    }
  });

  it("a partner gets no events of another clinic, branch, application or environment", async () => {
    const restricted = await createPartnerWorld(api.command, "production", {});
    const stranger = await createApplication(api.command.log);
    const { branchId, otherBranchId, clinicId } = world;
    await installApplication(api.command.log, stranger, world, { branchIds: [branchId] });
    const { body: token } = await sendTokenRequest(api.command.url, stranger);
    const strangerHeaders = { ...world.headers, Authorization: `Bearer ${token.access_token}` };
    const strangerWorld = { ...world, ...stranger, headers: strangerHeaders };
    await eventually("the installation", async () => (await list("", strangerWorld)).status === 200);
    const own = await request();
    const hidden = await request({ clinicId, branchId: otherBranchId });
    await awaitEvents(3);
    expect(listAppointments(await read("", strangerWorld))).to.deep.equal([own]);
    expect(listAppointments(await read())).to.deep.equal([own, hidden]);
    const approvals = (await read("", strangerWorld)).events.filter(({ type }) => type.startsWith("installation"));
    expect(approvals).to.have.length(1);
    expect(
      (await list("", { ...restricted, headers: { ...restricted.headers, "X-SERVICE-Clinic-ID": clinicId } })).status,
    ).to.equal(403);
    expect((await list("", { ...world, environment: "sandbox" })).status).to.equal(401);
    const branchHeaders = { ...world.headers, "X-SERVICE-Branch-ID": otherBranchId };
    expect(listAppointments(await read("", { ...world, headers: branchHeaders }))).to.deep.equal([hidden]);
  });

  it("a narrowed installation gets an event, and no more events of other branches", async () => {
    await request({ ...world, branchId: world.otherBranchId });
    const { cursor } = await awaitEvents(2);
    const narrowing = { applicationId: world.applicationId, clinicId: world.clinicId, branchIds: [world.branchId] };
    await narrowInstallation(api.command.log, narrowing, createTestOperatorContext());
    const { events } = await awaitEvents(1, `after=${cursor}`);
    expect(events[0]).to.deep.include({ type: "installation.access_changed", branchId: null });
    expect(events[0]?.data).to.have.nested.property("installation.branchIds").deep.equal([world.branchId]);
    const types = (await read()).events.map(({ type }) => type);
    expect(types).to.deep.equal(["installation.approved", "installation.access_changed"]);
  });

  it("a token without webhooks:read gets no events about endpoints", async () => {
    const partner = await api.createPartner();
    const { clinicId } = (await partner.request("GET", "/sandbox")).body.sandbox;
    const headers = { ...partner.headers, "X-SERVICE-Clinic-ID": clinicId };
    const endpoint = { url: "http://127.0.0.1:9/hooks", events: ["appointment.created"] };
    const { body } = await partner.request("POST", "/webhook-endpoints", { headers, body: endpoint });
    await partner.request("POST", `/webhook-endpoints/${body.endpoint.id}/test`, { headers });
    const read = async (readerHeaders: Record<string, string>) =>
      (await partner.request("GET", "/events", { headers: readerHeaders })).body.events.map(
        ({ type }: { type: string }) => type,
      );
    await eventually("the event", async () => (await read(headers)).includes("endpoint.test"));
    const narrow = await sendTokenRequest(api.command.url, partner, { scope: "appointments:read" });
    expect(await read({ ...headers, Authorization: `Bearer ${narrow.body.access_token}` })).to.not.include(
      "endpoint.test",
    );
  });

  it("an event whose stream was deleted from the log keeps its place and its data in the feed", async () => {
    const deletedId = await request();
    const { events } = await awaitEvents(2);
    const client = connectEventStore(api.eventstoreUrl, "test");
    await client.deleteStream(`appointment-${deletedId}`);
    await client.tombstoneStream(`installation-${deriveInstallationId(world.applicationId, world.clinicId)}`);
    await client.dispose();
    expect((await read()).events).to.deep.equal(events);
  });

  it("a sandbox reset is an event, and earlier cursors stay valid", async () => {
    const partner = await api.createPartner();
    const { clinicId } = (await partner.request("GET", "/sandbox")).body.sandbox;
    const headers = { ...partner.headers, "X-SERVICE-Clinic-ID": clinicId };
    const { body: first } = await partner.request("GET", "/events", { headers });
    await partner.request("POST", "/sandbox/reset");
    const { body } = await partner.request("GET", `/events?after=${first.cursor}`, { headers });
    expect(body.events).to.have.length(1);
    expect(body.events[0]).to.deep.include({ type: "sandbox.reset" });
    expect(body.events[0].data.sandbox.generation).to.equal(2);
  });

  it("a reader that follows the feed during concurrent changes ends with the state of the clinic", async () => {
    let isDone = false;
    const writers = Array.from({ length: 8 }, async () => {
      for (let count = 0; count < 6; count += 1) await confirm(await request());
    });
    const writing = Promise.all(writers).then(() => {
      isDone = true;
    });
    const copy = new Map<string, { revision: number; status: string }>();
    const seenIds = new Set<string>();
    let after = "";
    let isLast = false;
    while (!isLast) {
      isLast = isDone && copy.size === 48 && [...copy.values()].every(({ status }) => status === "confirmed");
      const { events, cursor } = await read(`limit=7&wait=1${after && `&after=${after}`}`);
      for (const { id, data } of events) {
        expect(seenIds.has(id), "an event twice").to.equal(false);
        seenIds.add(id);
        if (data.appointment) copy.set(data.appointment.id, data.appointment);
      }
      after = cursor;
    }
    await writing;
    const window = "from=2099-05-01T00:00:00Z&to=2099-05-10T00:00:00Z&limit=250";
    const { body } = await sendRequest("GET", `${api.queryUrl}/production/v1/appointments?${window}`, world.headers);
    const records = body.appointments.map(({ notes: _, ...record }: { notes: string }) => record);
    expect([...copy.values()]).to.have.deep.members(records);
  });

  describe("requests that wait", () => {
    const timed = async (responsePromise: Promise<PartnerResponse>) => {
      const startedAt = performance.now();
      const { status, body } = await responsePromise;
      return { status, body, seconds: (performance.now() - startedAt) / 1_000 };
    };

    it("a request waits for the next event of its clinic, and not for events of other clinics", async () => {
      const { cursor } = await awaitEvents(1);
      const other = await createPartnerWorld(api.command);
      const waiting = timed(list(`after=${cursor}&wait=25`));
      await request(other);
      const id = await request();
      const { status, body, seconds } = await waiting;
      expect([status, body.events[0]?.data.appointment.id]).to.deep.equal([200, id]);
      expect(seconds).to.be.below(20);
    });

    it("a request without events returns an empty list and the same cursor after its wait", async () => {
      const { cursor } = await awaitEvents(1);
      const { status, body, seconds } = await timed(list(`after=${cursor}&wait=3`));
      expect([status, body.events, body.cursor]).to.deep.equal([200, [], cursor]);
      expect(seconds).to.be.above(2.9);
    });

    it("a request whose installation is revoked during the wait returns 403", async () => {
      const { cursor } = await awaitEvents(1);
      const waiting = timed(list(`after=${cursor}&wait=25`));
      const input = { applicationId: world.applicationId, clinicId: world.clinicId, reason: null };
      await revokeInstallation(api.command.log, input, createTestOperatorContext());
      const { status, body, seconds } = await waiting;
      expect([status, body.error]).to.deep.equal([403, "installation_denied"]);
      expect(seconds).to.be.below(20);
    });

    describe("in a process of its own", () => {
      let service: RunningService;

      beforeEach(async () => {
        service = await startQueryApi({
          ...queryEnvironment,
          DATABASE_URL: api.database.urls.query,
          TOKEN_ISSUER,
          TOKEN_JWKS_URL: `${api.command.url}/.well-known/jwks.json`,
        });
      });
      afterEach(() => service.stop());

      it("a stop during a wait returns an empty list, and another process continues from its cursor", async () => {
        const { cursor } = await awaitEvents(1);
        const waiting = timed(list(`after=${cursor}&wait=25`, world, service.url));
        await awaitWaits(service.url);
        await service.drain?.(AbortSignal.abort());
        const { status, body, seconds } = await waiting;
        expect([status, body.events]).to.deep.equal([200, []]);
        expect(seconds).to.be.below(20);
        const id = await request();
        const { events } = await awaitEvents(1, `after=${body.cursor}`);
        expect(events[0]?.data.appointment?.id).to.equal(id);
      });

      /** Sends requests that wait. On a busy machine, some must be sent again: too many start at once. */
      const send = (count: number, cursor: string, mayRepeat = () => true) =>
        Array.from({ length: count }, async () => {
          for (;;) {
            const response = await list(`after=${cursor}&wait=25`, world, service.url);
            if ((response.status !== 503 && response.body.error !== "rate_limit_exceeded") || !mayRepeat())
              return response;
          }
        });

      it("of 240 waiting requests of an application, 200 wait and the others return 429, while other reads succeed", async () => {
        const { cursor } = await awaitEvents(1);
        const answers: PartnerResponse[] = [];
        const sent = send(240, cursor).map(async (answer) => answers.push(await answer));
        await eventually("40 refusals", () => answers.length >= 40);
        const refusals = answers.slice(0, 40);
        expect(new Set(refusals.map(({ status, body }) => `${status} ${body.error}`))).to.deep.equal(
          new Set(["429 too_many_waiting_requests"]),
        );
        expect(refusals[0]?.headers.get("Retry-After")).to.equal("5");
        expect((await list(`after=${cursor}`, world, service.url)).status).to.equal(200);
        await request();
        await Promise.all(sent);
        expect(new Set(answers.slice(40).map(({ status }) => status))).to.deep.equal(new Set([200]));
      }).timeout(120_000);

      it("an event resumes only four waiting requests of an application at once, and the others have their full time", async () => {
        const { cursor } = await awaitEvents(1);
        const statuses: number[] = [];
        let isLocked = false;
        const waits = send(20, cursor, () => !isLocked).map(async (answer) => statuses.push((await answer).status));
        await awaitWaits(service.url, 20);
        isLocked = true;
        const admin = openDatabase(api.database.urls.projection, 1);
        const table = `${READ_MODEL_SCHEMA}.partner_application`;
        await admin.query(`BEGIN; LOCK TABLE ${table}`);
        await request();
        const countChecks = async () => {
          const locks = `SELECT FROM pg_locks JOIN pg_database d ON d.oid = database AND datname = current_database()
            WHERE relation = '${table}'::regclass AND NOT granted`;
          return (await admin.query(locks)).rowCount;
        };
        await eventually("access checks that wait for the lock", async () => (await countChecks()) === 4);
        await sendRequest("GET", `${service.url}/health/ready`, {});
        expect(await countChecks()).to.be.at.most(4);
        const hasNext = async () => statuses.length >= 4 && (await countChecks()) === 4;
        await eventually("access checks after the deadline of the first four", hasNext);
        await admin.query("COMMIT");
        await Promise.all(waits);
        expect(statuses.filter((status) => status === 200)).to.have.length.at.least(12);
      });
    });
  });
});
