import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { cancelAppointment, importAppointment } from "../../../command/operations/appointment-operations.ts";
import { narrowInstallation } from "../../../command/operations/installation-operations.ts";
import { recordErasure } from "../../../command/operations/personal-data/record-erasure.ts";
import { listChanges } from "../../../query-api/partner/list-changes.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { openDatabase } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { createPartnerWorld, createTestOperatorContext, sendRequest } from "../../support/partner.ts";
import { REBUILD_SQL, setUpFeed } from "./feed.ts";

interface Changes {
  appointments: { id: string; status: string; revision: number }[];
  changes: { cursor: string; hasMore: boolean };
}

/** A time before all changes. */
const START = "2020-01-01T00:00:00Z";

describe("the list of changed appointments", () => {
  const feed = setUpFeed<Changes>(
    "/appointments?updatedSince=",
    async ({ list }) => (await list(START)).status === 200,
  );
  const { api, world, list, read, request, confirm } = feed;
  const awaitChanges = (count: number, cursor = START) =>
    feed.awaitPage(({ appointments }) => appointments.length >= count, cursor);
  const listIds = ({ appointments }: Changes) => appointments.map(({ id }) => id);

  it("a cursor returns exactly the appointments that changed after it, at any time and with any status", async () => {
    const [first, second] = [await request(), await request(world, { scheduledAt: "2098-01-01T00:00:00.000Z" })];
    const page = await awaitChanges(2);
    expect(listIds(page)).to.deep.equal([first, second]);
    expect(page).to.not.have.property("window");
    expect(await read(page.changes.cursor)).to.deep.include({ appointments: [], changes: page.changes });
    const reference = { appointmentId: first, clinicId: world.clinicId };
    await cancelAppointment(api.command.log, { ...reference, reason: null } as never, createTestOperatorContext());
    const changed = await awaitChanges(1, page.changes.cursor);
    expect(changed.appointments.map(({ id, status }) => [id, status])).to.deep.equal([[first, "cancelled"]]);
  });

  it("a time after the last change returns no appointment and a cursor for later changes", async () => {
    const id = await request();
    await awaitChanges(1);
    const { appointments, changes } = await read(encodeURIComponent("2098-01-01T00:00:00+02:00"));
    expect(appointments).to.deep.equal([]);
    await confirm(id);
    expect(listIds(await awaitChanges(1, changes.cursor))).to.deep.equal([id]);
  });

  it("a list since a time does not read the appointments that changed before", async () => {
    const { clinicId, applicationId } = world;
    await request();
    await awaitChanges(1);
    const table = `${READ_MODEL_SCHEMA}.appointment`;
    const owner = openDatabase(api.database.urls.projection);
    await owner.query(
      `INSERT INTO ${table} SELECT (jsonb_populate_record(a, jsonb_build_object('appointment_id', gen_random_uuid(),
         'position', -g, 'updated_at', '2020-01-01T00:00:00Z'))).* FROM ${table} a, generate_series(1, 5000) g
        WHERE clinic_id = $1`,
      [clinicId],
    );
    await owner.query(`ANALYZE ${table}`);
    const options = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off";
    const reader = new pg.Client({ connectionString: api.database.urls.query, options });
    await reader.connect();
    const state = { clinicId, applicationId, branchId: null, installation: { branchIds: null, animalAccess: "all" } };
    const parameters = { updatedSince: "2021-01-01T00:00:00Z", limit: 1 };
    const values = await listChanges.getSqlParameters({ state, parameters } as never);
    await reader.query(`PREPARE changes AS ${listChanges.sql}`);
    const literals = values.map((value) => (value == null ? "NULL" : pg.escapeLiteral(String(value))));
    const { rows } = await reader.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE changes (${literals})`);
    await reader.end();
    const [{ Plan: plan }] = rows[0]["QUERY PLAN"];
    // A list that read all 5,001 appointments would touch more than 100 pages.
    expect(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]).to.be.below(50);
  });

  it("an appointment that changes between two pages appears again, and none is missed during concurrent changes", async () => {
    let isDone = false;
    const writing = Promise.all(
      Array.from({ length: 6 }, async () => {
        const ids: string[] = [];
        for (let count = 0; count < 5; count += 1) ids.push(await request());
        for (const id of ids) await confirm(id);
      }),
    ).then(() => {
      isDone = true;
    });
    const copy = new Map<string, { status: string; revision: number }>();
    let cursor: string = START;
    let isLast = false;
    while (!isLast) {
      isLast = isDone && copy.size === 30 && [...copy.values()].every(({ status }) => status === "confirmed");
      const page = await read(`${cursor}&limit=4`);
      for (const appointment of page.appointments) copy.set(appointment.id, appointment);
      cursor = page.changes.cursor ?? cursor;
    }
    await writing;
    const window = "from=2099-05-01T00:00:00Z&to=2099-05-10T00:00:00Z&limit=250";
    const { body } = await sendRequest("GET", `${api.queryUrl}/production/v1/appointments?${window}`, world.headers);
    expect([...copy.values()]).to.have.deep.members(body.appointments);
  });

  it("an imported appointment is listed although it sends no event and has an earlier time", async () => {
    await request();
    const { changes } = await awaitChanges(1);
    const appointmentId = randomUUID();
    const subject = { appointmentId, clinicId: world.clinicId, branchId: world.branchId };
    const times = { scheduledAt: "2019-05-04T10:00:00.000Z", requestedAt: null, statusAt: "2019-05-04T11:00:00.000Z" };
    const details = { animalId: null, customerId: null, durationMinutes: 30, reason: null, notes: null };
    const input = { ...subject, ...times, ...details, status: "completed", resourceIds: [] };
    await importAppointment(api.command.log, input as never, createTestOperatorContext());
    const page = await awaitChanges(1, changes.cursor);
    expect(listIds(page)).to.deep.equal([appointmentId]);
    expect((await read(page.changes.cursor)).appointments).to.deep.equal([]);
    const { body } = await sendRequest("GET", `${api.queryUrl}/production/v1/events?limit=100`, world.headers);
    expect(JSON.stringify(body)).to.not.contain(appointmentId);
  });

  it("an appointment whose notes are erased, for its customer or alone, is listed again", async () => {
    const { clinicId, customerId, animalId } = world;
    const ofCustomer = await request(world, { customerId, animalId });
    const ofNobody = await request();
    const { appointments: before, changes } = await awaitChanges(2);
    const erasure = { clinicId, categories: ["notes" as const], cause: "request" as const, reason: "Request 17" };
    const context = createTestOperatorContext(Date.now() + 60_000);
    await recordErasure.customer(api.command.log, { ...erasure, id: customerId }, context);
    const first = await awaitChanges(1, changes.cursor);
    const erased = { ...before[0], notes: null, updatedAt: toInstant(context.now) };
    expect([ofCustomer, first.appointments]).to.deep.equal([before[0]?.id, [erased]]);
    expect((await read(toInstant(context.now))).appointments).to.deep.equal([erased]);
    expect((await read(first.changes.cursor)).appointments).to.deep.equal([]);
    await recordErasure.appointment(api.command.log, { ...erasure, id: ofNobody }, createTestOperatorContext());
    const second = await awaitChanges(1, first.changes.cursor);
    expect(second.appointments).to.have.length(1);
    expect(second.appointments[0]).to.deep.include({ id: ofNobody, notes: null });
  });

  it("a partner sees no changes of other clinics and branches, and cannot use their cursors", async () => {
    const [own, hidden] = [await request(), await request({ ...world, branchId: world.otherBranchId })];
    const all = await awaitChanges(2);
    const branchHeaders = { ...world.headers, "X-SERVICE-Branch-ID": world.branchId };
    const ownPage = await read(START, { ...world, headers: branchHeaders });
    expect(listIds(ownPage)).to.deep.equal([own]);
    expect(Buffer.from(ownPage.changes.cursor, "base64url").toString()).to.not.contain(hidden);
    const stranger = await createPartnerWorld(api.command);
    await eventually("the stranger", async () => (await list(START, stranger)).status === 200);
    expect((await list(all.changes.cursor, stranger)).body.error).to.equal("unknown_cursor");
    expect(await read(START, stranger)).to.deep.include({
      appointments: [],
      changes: { cursor: null, hasMore: false },
    });
  });

  it("a change of the installation's branches and a sandbox reset make earlier cursors invalid", async () => {
    await request();
    const { changes } = await awaitChanges(1);
    const narrowing = { applicationId: world.applicationId, clinicId: world.clinicId, branchIds: [world.branchId] };
    await narrowInstallation(api.command.log, narrowing, createTestOperatorContext());
    await eventually("422", async () => (await list(changes.cursor)).body.error === "unknown_cursor");
    const partner = await api.createPartner();
    const { clinicId } = (await partner.request("GET", "/sandbox")).body.sandbox;
    const headers = { ...partner.headers, "X-SERVICE-Clinic-ID": clinicId };
    const readSandbox = (since: string) =>
      partner.request("GET", `/appointments?limit=3&updatedSince=${since}`, { headers });
    const { body: first } = await readSandbox(START);
    const { body: second } = await readSandbox(first.changes.cursor);
    expect(second.appointments).to.have.length(3);
    expect(listIds(second)).to.not.include.members(listIds(first));
    await partner.request("POST", "/sandbox/reset");
    expect((await readSandbox(first.changes.cursor)).body.error).to.equal("unknown_cursor");
  });

  it("a cursor from the time of a quarantine is valid until a rebuild, also if more streams are quarantined", async () => {
    await request();
    const { changes } = await awaitChanges(1);
    const owner = openDatabase(api.database.urls.projection);
    const quarantine = () =>
      owner.query(
        `INSERT INTO ${READ_MODEL_SCHEMA}.quarantined_stream (stream, revision, position, event_type, cause, clinic_id, since, events)
         VALUES ($1, 0, 1, 'Unknown', 'unknown', $2, now(), 1)`,
        [`appointment-${randomUUID()}`, world.clinicId],
      );
    await quarantine();
    const next = await request();
    const page = await awaitChanges(1, changes.cursor);
    await quarantine();
    expect((await read(page.changes.cursor)).appointments).to.deep.equal([]);
    await owner.query(`BEGIN; ${REBUILD_SQL}; DELETE FROM ${READ_MODEL_SCHEMA}.quarantined_stream; COMMIT`);
    expect((await list(page.changes.cursor)).body.error).to.equal("unknown_cursor");
    expect(listIds(await read(changes.cursor))).to.deep.equal([next]);
  });

  it("parameters of the window are ignored next to updatedSince", async () => {
    expect((await read(`${START}&cursor=nowhere&from=x&to=y`)).appointments).to.deep.equal([]);
  });

  it("a value that is neither a cursor nor a date-time returns 400", async () => {
    for (const value of ["yesterday", "2026-01-01", "", "0000-01-01T00:00:00Z"]) {
      expect((await list(value)).body.error, value).to.equal("invalid_cursor");
    }
  });
});
