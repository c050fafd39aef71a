import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { AccessDeniedError, type ReadStreamOptions } from "@eventstore/db-client";
import { expect } from "chai";
import { accessesQuery } from "../../../command/audit/access/list-accesses.ts";
import { requestAppointment } from "../../../command/operations/appointment-operations.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { sharedDataKeys } from "../../support/data-keys.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { type ClinicHistory, createClinicWithHistory, getTypes, type TestAuditor, useAuditWorld } from "./world.ts";

describe("a clinic's events and accesses", () => {
  const { world, history, auditor } = useAuditWorld();
  let foreignHistory: ClinicHistory;
  let strangerAuditor: TestAuditor;
  let unlimitedAuditor: TestAuditor;

  before(async () => {
    foreignHistory = await createClinicWithHistory(world.log);
    strangerAuditor = await world.registerAuditor([foreignHistory.clinicId]);
    unlimitedAuditor = await world.registerAuditor(null);
  });

  const listAccesses = async (reader: TestAuditor, parameters = "") =>
    (await reader.request(`/audit/v1/accesses?clinic=${history.clinicId}${parameters}`)).lines;

  it("GET /audit/v1/accesses lists the accesses of an auditor whose stream was deleted, without a name", async () => {
    const deletedAuditor = await world.registerAuditor([history.clinicId]);
    await deletedAuditor.request(`/audit/v1/events?clinic=${history.clinicId}`);
    await world.client.tombstoneStream(`auditor-${deletedAuditor.auditorId}`);
    const accesses = await listAccesses(auditor);
    const access = accesses.find(({ actor }) => actor.id === deletedAuditor.auditorId);
    expect([access?.action, access?.auditorName]).to.deep.equal(["events", null]);
  });

  it("the list of accesses is complete although the log refuses to read a record of another clinic and an auditor", async () => {
    const reader = await world.registerAuditor(null);
    await reader.request(`/audit/v1/state?stream=${foreignHistory.stream}`);
    await reader.request(`/audit/v1/events?clinic=${history.clinicId}`);
    const client = connectEventStore(world.env.EVENTSTORE_URL as string, "test");
    const readStream = client.readStream.bind(client);
    const refusedStreams = [foreignHistory.stream, `auditor-${reader.auditorId}`];
    const refusal = new AccessDeniedError(Object.assign(new Error("refused"), { code: 7 }) as never);
    client.readStream = ((stream: string, options: ReadStreamOptions) =>
      refusedStreams.includes(stream)
        ? new Readable({ objectMode: true }).destroy(refusal)
        : readStream(stream, options)) as typeof readStream;
    const { index } = world;
    const options = { client, index, dataKeys: sharedDataKeys, permittedClinicIds: null };
    const relations: string[] = [];
    for await (const { actor, action, relation } of await accessesQuery.run(
      { clinic: history.clinicId, order: "oldest" },
      options,
    ))
      if (actor?.id === reader.auditorId) relations.push(`${action} ${relation}`);
    await client.dispose();
    expect(relations).to.deep.equal(["events certain"]);
  });

  it("GET /audit/v1/events lists events with the newest first, in pages up to the start of the log", async () => {
    const { lines } = await auditor.request(`/audit/v1/events?clinic=${history.clinicId}`);
    const expectedIds = lines.map(({ id }) => id).reverse();
    const ids: string[] = [];
    let next: string | null = "";
    while (next !== null) {
      const query: string = `clinic=${history.clinicId}&order=newest&limit=4${next && `&after=${next}`}`;
      const page = await auditor.request(`/audit/v1/events?${query}`);
      ids.push(...page.lines.map(({ id }) => id));
      ({ next } = page.end);
    }
    expect(ids).to.deep.equal(expectedIds);
    const ofStream = `/audit/v1/events?stream=${history.stream}&order=newest&limit=2`;
    const [last, former] = (await auditor.request(ofStream)).lines;
    expect([last.revision, former.revision]).to.deep.equal([2, 1]);
    expect((await auditor.request(`${ofStream}&after=${former.position}`)).lines[0].revision).to.equal(0);
  });

  it("GET /audit/v1/events lists the events of a day in the clinic's time zone, by actor", async () => {
    const { clinicId, branchId, animalId } = history;
    // In Istanbul, this is May 11.
    const context = createTestOperatorContext(Date.parse("2026-05-10T21:30:00Z"));
    const schedule = { scheduledAt: "2026-06-01T10:00:00.000Z", durationMinutes: 30, reason: null, notes: null };
    const appointment = { appointmentId: randomUUID(), clinicId, branchId, animalId, ...schedule };
    await requestAppointment(world.log, appointment, { ...context, actor: { type: "operator", id: "grace" } });
    const listTypes = async (query: string) =>
      getTypes((await auditor.request(`/audit/v1/events?clinic=${clinicId}&${query}`)).lines);
    expect(await listTypes("day=2026-05-11&actor=operator:grace")).to.deep.equal(["AppointmentRequested"]);
    expect(await listTypes("day=2026-05-11&actor=operator:test")).to.deep.equal([]);
    for (const day of ["2026-05-10", "0001-01-01", "0999-06-01", "9999-12-31"])
      expect(await listTypes(`day=${day}`), day).to.deep.equal([]);
    for (const query of [
      `clinic=${clinicId}&day=2026-05-11&from=2026-05-11T00:00:00Z`,
      `animal=${animalId}&day=2026-05-11`,
    ]) {
      const { body } = await auditor.request(`/audit/v1/events?${query}`);
      expect(body.details[0].path, query).to.equal("day");
    }
  });

  it("GET /audit/v1/accesses lists who read the records of a clinic, by clinic, by record and by stream", async () => {
    const reader = await world.registerAuditor([history.clinicId]);
    const paths = [
      `events?customer=${history.customerId}`,
      `state?stream=${history.stream}`,
      `export?clinic=${history.clinicId}`,
    ];
    for (const path of paths) expect((await reader.request(`/audit/v1/${path}`)).status, path).to.equal(200);
    const accesses = (await listAccesses(auditor)).filter(({ actor }) => actor.id === reader.auditorId);
    expect(accesses.map(({ action, relation }) => [action, relation])).to.deep.equal([
      ...[
        ["events", "certain"],
        ["state", "certain"],
        ["export", "certain"],
      ],
    ]);
    expect(accesses[0]).to.deep.include({ auditorName: "Ada Audit", asked: { customer: history.customerId } });
    expect(Date.now() - Date.parse(accesses[0].at)).to.be.within(0, 60_000);
    const lastAccess = (await listAccesses(auditor)).at(-1);
    expect(lastAccess, "the query itself").to.deep.include({
      action: "accesses",
      actor: { type: "auditor", id: auditor.auditorId },
    });
    expect(await listAccesses(auditor, `&after=${lastAccess.position}&limit=1`)).to.have.length(1);
  });

  it("GET /audit/v1/accesses lists who read the records of a customer, and who may have read them", async () => {
    const reader = await world.registerAuditor([history.clinicId]);
    const paths = [
      `events?customer=${history.customerId}`,
      `events?animal=${history.animalId}`,
      `state?stream=${history.stream}`,
      `state?stream=clinic-${history.clinicId}`,
      `export?clinic=${history.clinicId}`,
    ];
    for (const path of paths) expect((await reader.request(`/audit/v1/${path}`)).status, path).to.equal(200);
    const listRelations = async (as: TestAuditor, subject: string) =>
      (await as.request(`/audit/v1/accesses?${subject}`)).lines
        .filter(({ actor }) => actor.id === reader.auditorId)
        .map(({ action, relation }) => [action, relation]);
    const ofAppointment = [
      ["state", "certain"],
      ["export", "possible"],
    ];
    const ofAnimal = [["events", "certain"], ...ofAppointment];
    expect(await listRelations(auditor, `customer=${history.customerId}`)).to.eql([["events", "certain"], ...ofAnimal]);
    expect(await listRelations(auditor, `animal=${history.animalId}`)).to.eql(ofAnimal);
    expect(await listRelations(auditor, `appointment=${history.appointmentId}`)).to.eql(ofAppointment);
    expect(await listRelations(auditor, `stream=${history.stream}`)).to.eql(ofAppointment);
    for (const subject of [`customer=${history.customerId}`, `stream=${history.stream}`])
      expect(await listRelations(strangerAuditor, subject), "an auditor of another clinic").to.eql([]);
  });

  it("an access whose query can return events of several clinics is possible, and its query is hidden", async () => {
    const { correlationId } = foreignHistory.requestContext;
    await unlimitedAuditor.request(`/audit/v1/events?correlation=${correlationId}`);
    const findPossible = async (reader: TestAuditor) =>
      (await listAccesses(reader)).filter(({ relation }) => relation === "possible").at(-1);
    expect(await findPossible(unlimitedAuditor)).to.deep.include({ asked: { correlation: correlationId } });
    expect(await findPossible(auditor)).to.deep.include({ action: "events", asked: null, found: [] });
  });

  it("an auditor sees no accesses to other clinics, and an attempt outside the scope is not an access", async () => {
    expect(await listAccesses(strangerAuditor)).to.deep.equal([]);
    await strangerAuditor.request(`/audit/v1/events?customer=${history.customerId}`);
    await auditor.request(`/audit/v1/events?customer=${foreignHistory.customerId}`);
    const accesses = await listAccesses(unlimitedAuditor);
    expect(accesses.map(({ actor }) => actor.id)).not.to.include(strangerAuditor.auditorId);
    expect(accesses.map(({ asked }) => asked.customer)).not.to.include(foreignHistory.customerId);
  });

  it("the command line lists latest events and accesses, and records both", async () => {
    const args = ["--clinic", history.clinicId, "--actor", "grace"];
    const latest = await world.run(["events", ...args, "--order", "newest", "--limit", "2", "--json"]);
    const [last, former] = latest.output.trim().split("\n");
    expect(Number(JSON.parse(last ?? "").position)).to.be.greaterThan(Number(JSON.parse(former ?? "").position));
    const accesses = await world.run(["accesses", ...args]);
    expect([accesses.code, accesses.output]).to.satisfy(
      ([code, output]: [number, string]) => code === 0 && /events +certain +operator:grace/.test(output),
    );
    expect((await world.run(["accesses"])).errorLines[0]).to.match(/^audit: must have exactly one of/);
  });

  it("GET /audit/v1/accesses lists an access that the log no longer has in its place, with a problem", async () => {
    const reader = await world.registerAuditor([history.clinicId]);
    await reader.request(`/audit/v1/events?clinic=${history.clinicId}`);
    const findAccess = async () => (await listAccesses(auditor)).find(({ actor }) => actor?.id === reader.auditorId);
    const { accessId, at, position, ...rest } = await findAccess();
    expect(rest).to.include({ action: "events", auditorName: "Ada Audit" });
    const stream = `auditAccess-${accessId}`;
    await world.client.tombstoneStream(stream);
    // The embedded log cannot scavenge, so the row gets an id that it does not contain.
    await world.owner.query("UPDATE audit.event SET event_id = gen_random_uuid() WHERE stream = $1", [stream]);
    const unknown = { action: "unknown", asked: null, found: [], problem: "missing_in_log" };
    const missing = await findAccess();
    expect(missing).to.deep.equal({ ...rest, accessId: missing.accessId, at, position, ...unknown });
    const { body } = await auditor.request(`/audit/v1/readers?clinic=${history.clinicId}`);
    expect(body.accesses).to.deep.include(missing);
    const { output } = await world.run(["accesses", "--clinic", history.clinicId]);
    expect(output).to.match(/ unknown +certain +auditor:\S+ Ada Audit +missing_in_log/);
    for (const query of [`clinic=${history.clinicId}`, `auditor=${reader.auditorId}`])
      expect((await unlimitedAuditor.request(`/audit/v1/accesses?${query}`)).status, query).to.equal(200);
  });
});
