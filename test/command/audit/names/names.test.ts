import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { findNames } from "../../../../command/audit/names/find-names.ts";
import type { AuditAccessEvent } from "../../../../shared/domain/events/audit.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import {
  animalRegistered,
  appointmentRequested,
  branchOpened,
  clinicRegistered,
  customerRegistered,
} from "../../../support/clinics.ts";
import { createClinic } from "../../../support/partner.ts";
import { createReadModelDatabase, type ReadModelDatabase } from "../../../support/read-models.ts";
import {
  type AuditResponse,
  type AuditWorld,
  createClinicWithHistory,
  fillReadModels,
  requestAudit,
  startAuditWorld,
  type TestAuditor,
} from "../world.ts";

describe("auditors' search by names", () => {
  let world: AuditWorld;
  let database: ReadModelDatabase;
  let auditor: TestAuditor;
  let strangerAuditor: TestAuditor;
  const ids = {
    clinicId: "",
    branchId: randomUUID(),
    customerId: randomUUID(),
    animalId: randomUUID(),
    staffId: randomUUID(),
    userId: randomUUID(),
    appointmentId: randomUUID(),
    lateAppointmentId: randomUUID(),
  };
  const foreignIds = {
    clinicId: "",
    branchId: randomUUID(),
    customerId: randomUUID(),
    animalId: randomUUID(),
  };

  before(async () => {
    database = await createReadModelDatabase();
    world = await startAuditWorld({}, undefined, database);
    ids.clinicId = (await createClinic(world.log)).clinicId;
    foreignIds.clinicId = (await createClinic(world.log)).clinicId;
    auditor = await world.registerAuditor([ids.clinicId]);
    strangerAuditor = await world.registerAuditor([foreignIds.clinicId]);
    const { clinicId, branchId, customerId, animalId, staffId, userId } = ids;
    await database.given(
      clinicRegistered(clinicId, { name: "Lindenhof", timezone: "Europe/Zurich" }),
      branchOpened(clinicId, branchId, { name: "Zug" }),
      customerRegistered(clinicId, customerId, { fullName: "Zoe\u0308 100% Müller" }),
      animalRegistered(clinicId, customerId, animalId, { name: "Rex" }),
      {
        type: "StaffMemberHired",
        data: { staffId, clinicId, userId, fullName: "Dr. Ada Müller", email: null, role: "veterinarian" },
      },
      // In Zurich, both appointments are on May 6. The second one starts on May 6 at 00:15.
      appointmentRequested(clinicId, branchId, "2026-05-06T08:00:00.000Z", {
        appointmentId: ids.appointmentId,
        customerId,
        animalId,
      }),
      appointmentRequested(clinicId, branchId, "2026-05-05T22:15:00.000Z", { appointmentId: ids.lateAppointmentId }),
      appointmentRequested(clinicId, branchId, "2026-05-06T22:00:00.000Z"),
      clinicRegistered(foreignIds.clinicId),
      customerRegistered(foreignIds.clinicId, foreignIds.customerId, { fullName: "Max Müller" }),
      animalRegistered(foreignIds.clinicId, foreignIds.customerId, foreignIds.animalId, { name: "Rex" }),
      appointmentRequested(foreignIds.clinicId, foreignIds.branchId, "2026-05-06T08:00:00.000Z", {
        animalId: foreignIds.animalId,
      }),
    );
  });
  after(async () => {
    await world?.stop();
    await database?.close();
  });

  const search = (searcher: TestAuditor, body: object) =>
    requestAudit(
      `${world.url}/audit/v1/search`,
      { Authorization: `Bearer ${searcher.credential}` },
      JSON.stringify(body),
    );

  /** Returns the data of the event that records the access of a request. */
  async function findAccess({ headers }: AuditResponse): Promise<AuditAccessEvent["data"]> {
    const { lines } = await (await world.registerAuditor(null)).request(
      `/audit/v1/events?correlation=${headers.get("X-Correlation-ID")}`,
    );
    expect(lines).to.have.length(1);
    return lines[0].data;
  }

  it("GET /audit/v1/clinics lists the names and time zones of the auditor's clinics, and no other clinics", async () => {
    const response = await auditor.request("/audit/v1/clinics");
    const clinic = { name: "Lindenhof", timezone: "Europe/Zurich", environment: "production", status: "active" };
    expect(response.body).to.deep.equal({ ok: true, clinics: [{ id: ids.clinicId, ...clinic }], isComplete: true });
    expect(await findAccess(response)).to.deep.include({ action: "clinics", found: [ids.clinicId] });
  });

  it("POST /audit/v1/search finds customers, animals and staff by a part of the name, in any case", async () => {
    const { body } = await search(auditor, { name: "müller" });
    expect(body).to.deep.equal({
      ok: true,
      results: [
        ...[{ kind: "customer", id: ids.customerId, name: "Zoë 100% Müller", customer: null, detail: null }],
        ...[{ kind: "staff", id: ids.staffId, name: "Dr. Ada Müller", customer: null, detail: "veterinarian" }],
      ].map((result) => ({ ...result, clinicId: ids.clinicId })),
      isComplete: true,
    });
    const { results } = (await search(auditor, { name: "rex", clinic: ids.clinicId })).body;
    expect(results).to.have.length(1);
    expect(results[0]).to.deep.include({ id: ids.animalId, detail: "cat" });
    expect(results[0].customer).to.deep.equal({ id: ids.customerId, name: "Zoë 100% Müller" });
    expect((await search(auditor, { name: "müller", kind: "staff" })).body.results).to.have.length(1);
    expect((await search(auditor, { name: "mu\u0308ller" })).body).to.deep.equal(body);
    expect((await search(auditor, { name: "zoë" })).body.results).to.have.length(1);
    expect((await search(auditor, { name: "100%" })).body.results).to.have.length(1);
    expect((await search(auditor, { name: "x_z%" })).body.results).to.deep.equal([]);
  });

  it("POST /audit/v1/search folds case by Unicode's full mapping", async () => {
    const { clinicId } = await createClinic(world.log);
    const names = ["Maria STRASSE", "Straße", "Σίσυφος", "ﬁnn", "Işıl", "GROẞMANN", "İdil"];
    const registrations = names.map((fullName) => customerRegistered(clinicId, randomUUID(), { fullName }));
    await database.given(clinicRegistered(clinicId), ...registrations);
    const reader = await world.registerAuditor([clinicId]);
    const find = async (name: string) =>
      (await search(reader, { name })).body.results.map((result: { name: string }) => result.name);
    expect(await find("straße")).to.have.members(["Maria STRASSE", "Straße"]);
    expect(await find("STRASSE")).to.have.members(["Maria STRASSE", "Straße"]);
    expect(await find("ΣΊΣΥΦΟΣ")).to.deep.equal(["Σίσυφος"]);
    expect(await find("großmann")).to.deep.equal(["GROẞMANN"]);
    expect(await find("GROẞMANN")).to.deep.equal(["GROẞMANN"]);
    expect(await find("İdil")).to.deep.equal(["İdil"]);
    expect(await find("Finn")).to.deep.equal(["ﬁnn"]);
    expect(await find("işil")).to.deep.equal(["Işıl"]);
  });

  it("an auditor can send only eight requests at a time", async () => {
    const client = await database.admin.connect();
    try {
      await client.query(`BEGIN; LOCK TABLE ${READ_MODEL_SCHEMA}.customer`);
      const searches = Array.from({ length: 9 }, () => search(auditor, { name: "müller" }));
      const { status, headers, body } = await Promise.race(searches);
      expect([status, body.error, headers.get("Retry-After")]).to.deep.equal([429, "rate_limit_exceeded", "1"]);
      await client.query("ROLLBACK");
      const statuses = (await Promise.all(searches)).map((response) => response.status);
      expect(statuses.sort()).to.deep.equal([...Array.from({ length: 8 }, () => 200), 429]);
    } finally {
      client.release();
    }
    expect((await search(auditor, { name: "müller" })).status).to.equal(200);
  });

  it("the recorded access of a search contains the found ids instead of the name", async () => {
    const access = await findAccess(await search(auditor, { name: "müller", kind: "customer" }));
    expect(access).to.deep.include({
      action: "search",
      asked: { name: "(withheld)", kind: "customer" },
      found: [ids.customerId],
      clinicIds: [ids.clinicId],
    });
    expect((await search(auditor, { name: "m" })).body.details[0].path).to.equal("name");
    expect((await search(auditor, { name: "ma\u0000" })).status).to.equal(400);
    const response = await auditor.request("/audit/v1/search?name=rex");
    expect([response.status, response.headers.get("Allow")]).to.deep.equal([405, "POST"]);
  });

  it("GET /audit/v1/appointments lists the appointments of a day in the clinic's time zone, and at a time", async () => {
    const path = `/audit/v1/appointments?clinic=${ids.clinicId}&day=2026-05-06`;
    const response = await auditor.request(path);
    expect(response.body.appointments.map(({ id }: { id: string }) => id)).to.deep.equal([
      ids.lateAppointmentId,
      ids.appointmentId,
    ]);
    expect(response.body.appointments[1]).to.deep.equal({
      id: ids.appointmentId,
      clinicId: ids.clinicId,
      scheduledAt: "2026-05-06T08:00:00.000Z",
      movedFrom: null,
      isMoved: false,
      branch: "Zug",
      durationMinutes: 30,
      status: "requested",
      animal: { id: ids.animalId, name: "Rex" },
      customer: { id: ids.customerId, name: "Zoë 100% Müller" },
    });
    expect((await findAccess(response)).found).to.include.members([ids.appointmentId, ids.animalId, ids.customerId]);
    const countAt = async (time: string) => (await auditor.request(`${path}&time=${time}`)).body.appointments.length;
    expect(await countAt("10:00"), "the start").to.equal(1);
    expect(await countAt("10:29"), "the last minute").to.equal(1);
    expect(await countAt("10:30"), "the end").to.equal(0);
    expect((await auditor.request(`${path}&time=25:00`)).body.details[0].path).to.equal("time");
  });

  it("GET /audit/v1/appointments lists a moved appointment also at its former times", async () => {
    const { clinicId } = await createClinic(world.log);
    const appointmentId = randomUUID();
    const move = (scheduledAt: string, durationMinutes: number) => ({
      type: "AppointmentRescheduled" as const,
      data: { appointmentId, scheduledAt, durationMinutes, reason: null },
    });
    await database.given(
      clinicRegistered(clinicId, { timezone: "Europe/Zurich" }),
      appointmentRequested(clinicId, randomUUID(), "2026-11-27T07:30:00.000Z", { appointmentId }),
      move("2026-11-27T14:00:00.000Z", 30),
      move("2026-11-30T14:00:00.000Z", 30),
      move("2026-11-30T14:00:00.000Z", 45),
    );
    const reader = await world.registerAuditor([clinicId]);
    const list = async (query: string) =>
      (await reader.request(`/audit/v1/appointments?clinic=${clinicId}&${query}`)).body.appointments.map(
        ({ scheduledAt, movedFrom, isMoved }: Record<string, unknown>) => [scheduledAt, movedFrom, isMoved],
      );
    const newTime = "2026-11-30T14:00:00.000Z";
    const formerTimes = ["2026-11-27T07:30:00.000Z", "2026-11-27T14:00:00.000Z"];
    expect(await list("day=2026-11-27")).to.eql(formerTimes.map((time) => [newTime, time, true]));
    expect(await list("day=2026-11-27&time=08:30")).to.eql([[newTime, "2026-11-27T07:30:00.000Z", true]]);
    expect(await list("day=2026-11-30")).to.eql([[newTime, null, true]]);
    expect(await list("day=2026-11-28")).to.eql([]);
  });

  /**
   * Adds a clinic with appointments of 30 minutes.
   *
   * @returns a function that runs a query and returns the indexes of the found appointments in `scheduledTimes`
   */
  async function addAppointments(timezone: string, scheduledTimes: string[]) {
    const { clinicId } = await createClinic(world.log);
    const appointmentIds = scheduledTimes.map(() => randomUUID() as string);
    await database.given(
      clinicRegistered(clinicId, { timezone }),
      ...scheduledTimes.map((scheduledAt, index) =>
        appointmentRequested(clinicId, randomUUID(), scheduledAt, { appointmentId: appointmentIds[index]! }),
      ),
    );
    const reader = await world.registerAuditor([clinicId]);
    return async (query: string) => {
      const { status, text, body } = await reader.request(`/audit/v1/appointments?clinic=${clinicId}&${query}`);
      expect(status, text).to.equal(200);
      return body.appointments.map(({ id }: { id: string }) => appointmentIds.indexOf(id));
    };
  }

  it("GET /audit/v1/appointments lists the appointments of a time that the clocks repeat, skip, or reach after midnight", async () => {
    const list = await addAppointments("Europe/Zurich", [
      "2025-10-26T00:30:00Z",
      "2025-10-26T01:30:00Z",
      "2025-10-27T22:50:00Z",
      "2026-03-29T00:50:00Z",
      "2026-05-04T08:00:30Z",
    ]);
    expect(await list("day=2025-10-26&time=02:40")).to.deep.equal([0, 1]);
    expect(await list("day=2025-10-28&time=00:10")).to.deep.equal([2]);
    expect(await list("day=2025-10-28&time=00:20")).to.deep.equal([]);
    expect(await list("day=2025-10-27&time=23:55")).to.deep.equal([2]);
    expect(await list("day=2025-10-28")).to.deep.equal([]);
    expect(await list("day=2026-03-29&time=02:10"), "skipped").to.deep.equal([]);
    expect(await list("day=2026-05-04&time=10:00"), "starts in this minute").to.deep.equal([4]);
  });

  it("GET /audit/v1/appointments accepts every date of the calendar in every time zone", async () => {
    const times = ["0001-01-01T00:00:00Z", "0999-06-01T12:00:00Z", "9999-12-30T23:59:59.999Z"];
    // In the west, the first appointment is on a day before all dates. In the east, the last one is on the last date.
    for (const [timezone, expectedOnFirstDay, expectedOnLastDay] of [
      ["UTC", [0], []],
      ["America/New_York", [], []],
      ["Europe/Zurich", [0], [2]],
    ] as const) {
      const list = await addAppointments(timezone, times);
      expect(await list("day=0001-01-01"), timezone).to.deep.equal(expectedOnFirstDay);
      expect(await list("day=0999-06-01"), timezone).to.deep.equal([1]);
      expect(await list("day=9999-12-31"), timezone).to.deep.equal(expectedOnLastDay);
      expect(await list("day=0001-01-01&time=00:00"), timezone).to.deep.equal(timezone === "UTC" ? [0] : []);
      expect(await list("day=9999-12-31&time=00:10"), timezone).to.deep.equal(timezone === "UTC" ? [2] : []);
      expect(await list("day=9999-12-31&time=23:59"), timezone).to.deep.equal([]);
    }
  });

  it("findNames returns the current names of the records whose ids a value contains, in the reader's scope", async () => {
    const { clinicId, branchId, customerId, animalId, staffId, userId, appointmentId } = ids;
    const value = { [`x-${customerId}`]: [...Object.values(ids), randomUUID(), null] };
    const names = await findNames(world.pool, value, [clinicId]);
    expect(names?.map(({ kind, id, name }) => `${kind} ${id} ${name}`)).to.have.members([
      ...[`clinic ${clinicId} Lindenhof`, `branch ${branchId} Zug`, `customer ${customerId} Zoë 100% Müller`],
      ...[`animal ${animalId} Rex`, `staff ${staffId} Dr. Ada Müller`, `user ${userId} Dr. Ada Müller`],
      ...[`appointment ${appointmentId} Rex`, `appointment ${ids.lateAppointmentId} null`],
    ]);
    expect(await findNames(world.pool, value, [foreignIds.clinicId])).to.deep.equal([]);
    const details = { fullName: "Zoë Neu", phone: null, email: null, city: null };
    await database.given({ type: "CustomerDetailsChanged", data: { customerId, ...details } });
    expect((await findNames(world.pool, customerId, null))?.[0]?.name).to.equal("Zoë Neu");
  });

  it("a page with names is one recorded access, with the ids of the records that it names", async () => {
    const history = await createClinicWithHistory(world.log);
    await fillReadModels(database, history);
    const reader = await world.registerAuditor([history.clinicId]);
    const { clinicId, customerId, animalId, appointmentId, branchId } = history;
    const ofClinic = [clinicId, branchId];
    const all = [...ofClinic, customerId, animalId, appointmentId];
    for (const [path, named] of [
      [`clinic-state?clinic=${clinicId}`, ofClinic],
      [`events?clinic=${clinicId}`, all],
      [`events?clinic=${clinicId}&limit=500`, all],
    ] as const) {
      const response = await reader.request(`/audit/v1/${path}&names=true`);
      const names: { id: string }[] = (response.end ?? response.body).names;
      const { found, clinicIds, asked } = await findAccess(response);
      expect([names.map(({ id }) => id), found], path).to.satisfy((lists: string[][]) =>
        lists.every((ids) => ids.length === named.length && named.every((id) => ids.includes(id))),
      );
      expect([clinicIds, "names" in asked], path).to.deep.equal([[clinicId], false]);
    }
    const { lines, end } = await reader.request(`/audit/v1/events?clinic=${clinicId}&limit=2&names=true`);
    expect([lines.length, end.count, end.next]).to.deep.equal([2, 2, lines[1].position]);
    const replay = await reader.request(`/audit/v1/replay?stream=${history.stream}&names=true`);
    expect([replay.lines.length, replay.end.names.length]).to.deep.equal([3, 5]);
    expect((await reader.request(`/audit/v1/events?clinic=${clinicId}&names=yes`)).body.details[0].path).to.equal(
      "names",
    );
  });

  it("no search returns a name or an appointment of a clinic outside the auditor's scope", async () => {
    const { clinicId } = ids;
    const { clinics } = (await strangerAuditor.request("/audit/v1/clinics")).body;
    expect(clinics.map(({ id }: { id: string }) => id)).to.deep.equal([foreignIds.clinicId]);
    for (const body of [{ name: "zoë" }, { name: "ada" }, { name: "müller", clinic: clinicId }]) {
      expect((await search(strangerAuditor, body)).body.results, JSON.stringify(body)).to.deep.equal([]);
    }
    const appointmentsPath = `/audit/v1/appointments?clinic=${clinicId}&day=2026-05-06`;
    expect((await strangerAuditor.request(appointmentsPath)).body.appointments).to.deep.equal([]);
    const unlimitedAuditor = await world.registerAuditor(null);
    expect((await search(unlimitedAuditor, { name: "rex" })).body.results).to.have.length(2);
  });

  it("while the read models are unavailable, searches by name return 503, and searches by id still work", async () => {
    const worldWithoutReadModels = await startAuditWorld({}, world.env.EVENTSTORE_URL);
    try {
      const otherAuditor = await worldWithoutReadModels.registerAuditor([ids.clinicId]);
      for (const path of ["clinics", `appointments?clinic=${ids.clinicId}&day=2026-05-06`]) {
        const { status, body } = await otherAuditor.request(`/audit/v1/${path}`);
        expect([status, body.error], path).to.deep.equal([503, "read_models_unavailable"]);
      }
      expect((await otherAuditor.request(`/audit/v1/events?customer=${ids.customerId}`)).status).to.equal(200);
      expect(
        (await otherAuditor.request(`/audit/v1/events?clinic=${ids.clinicId}&order=newest&limit=1`)).status,
      ).to.equal(200);
    } finally {
      await worldWithoutReadModels.stop();
    }
  });
});
