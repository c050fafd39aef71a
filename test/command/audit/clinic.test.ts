import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { isOperational, type Reader } from "../../../command/audit/clinic/list-readers.ts";
import { handle } from "../../../command/handling/handle.ts";
import { createLinkCode, redeemLinkCode, withdrawLink } from "../../../command/operations/animal-link-operations.ts";
import { revokeApplication } from "../../../command/operations/application-operations.ts";
import { addResource, retireResource } from "../../../command/operations/catalog-operations.ts";
import {
  changeSubscription,
  openBranch,
  reinstateClinic,
  suspendClinic,
} from "../../../command/operations/clinic-operations.ts";
import { registerAnimal } from "../../../command/operations/customer-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import {
  changePermissions,
  grantMembership,
  hireStaff,
  revokeMembership,
} from "../../../command/operations/people-operations.ts";
import type { Clinic } from "../../../shared/domain/clinic/clinic.ts";
import { customerAggregate, eraseCustomer } from "../../../shared/domain/clinic/customer.ts";
import type { Permission } from "../../../shared/domain/events/people.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createApplication,
  createClinic,
  createTestOperatorContext,
  installApplication,
} from "../../support/partner.ts";
import { createClinicWithHistory, useAuditWorld } from "./world.ts";

const DAY_MS = 86_400_000;

describe("isOperational", () => {
  const [past, now, future] = ["2026-05-01T00:00:00.000Z", "2026-05-02T00:00:00.000Z", "2026-05-03T00:00:00.000Z"];
  const subscription = (status: string, currentPeriodEnd: string | null = null) => ({
    subscription: { plan: "pro", status, currentPeriodEnd },
  });
  const demo = (demoExpiresAt: string | null) => ({ registration: { isDemo: true, demoExpiresAt } });
  const cases: [boolean, object][] = [
    [false, {}],
    [true, subscription("active", past)],
    [true, subscription("past_due", past)],
    [true, subscription("trialing")],
    [true, subscription("trialing", future)],
    [false, subscription("trialing", past)],
    [false, subscription("cancelled")],
    [true, subscription("cancelled", future)],
    [false, subscription("expired", future)],
    [false, { ...subscription("active"), status: "suspended" }],
    [true, demo(null)],
    [true, demo(future)],
    [false, demo(past)],
    [false, { ...demo(past), ...subscription("active") }],
  ];
  for (const [expected, fields] of cases) {
    it(`isOperational is ${expected} for a clinic with ${JSON.stringify(fields)}`, () => {
      const clinic = { status: "active", registration: { isDemo: false, demoExpiresAt: null }, subscription: null };
      expect(isOperational({ ...clinic, ...fields } as unknown as Clinic, now)).to.equal(expected);
    });
  }
});

describe("a clinic at a time, and who could read its records", () => {
  const { world, history: clinic, auditor } = useAuditWorld();
  const ada = { userId: randomUUID(), staffId: randomUUID(), membershipId: randomUUID() };
  const start = Date.now() - 10 * DAY_MS;
  const onDay = (day: number) => createTestOperatorContext(start + day * DAY_MS);

  before(async () => {
    const { clinicId } = clinic;
    const hire = { staffId: ada.staffId, clinicId, userId: null, fullName: "Ada Vet", email: null };
    await hireStaff(world.log, { ...hire, role: "veterinarian" }, onDay(0));
  });

  const grant = (permissions: Permission[], branchIds: string[] = []) => ({
    ...{ clinicId: clinic.clinicId, membershipId: ada.membershipId },
    ...{ role: "veterinarian" as const, permissions, branchIds },
    branchAccess: branchIds.length > 0 ? ("scoped" as const) : ("all" as const),
  });
  const requestReaders = async (query: string, as = auditor): Promise<Reader[]> => {
    const { status, body } = await as.request(`/audit/v1/readers?${query}`);
    expect(status).to.equal(200);
    return body.readers;
  };
  const find = (readers: Reader[], id: string) => readers.filter((reader) => reader.id === id);
  /** Returns the time at which the log stored the last event of a stream. */
  const readTime = async (as: typeof auditor, stream: string) =>
    (await as.request(`/audit/v1/events?stream=${stream}`)).lines.at(-1).storedAt as string;
  const readLastTime = (stream: string) => readTime(auditor, stream);

  it("GET /audit/v1/clinic-state shows a clinic between two events, and what has changed since in sentences", async () => {
    const { log } = world;
    const { clinicId, branchId } = clinic;
    const [resourceId, laterBranchId] = [randomUUID(), randomUUID()];
    const room = { resourceType: "room", name: "Room 1", capacity: 1, timezone: null, metadata: {} };
    await addResource(log, { resourceId, clinicId, branchId, ...room }, onDay(0));
    const { userId, staffId } = ada;
    await grantMembership(log, { ...grant(["view_clinical"]), userId, staffId, acceptedAt: null }, onDay(0.1));
    await changePermissions(log, grant(["manage_schedule"], [branchId]), onDay(2));
    await openBranch(log, { clinicId, branchId: laterBranchId, name: "East", city: null }, onDay(3));
    await retireResource(log, { clinicId, resourceId }, onDay(4));
    const application = await createApplication(log);
    await installApplication(log, application, clinic);

    const at = new Date(start + DAY_MS).toISOString();
    const { body } = await auditor.request(`/audit/v1/clinic-state?clinic=${clinicId}&at=${at}`);
    expect([body.at, body.timeZone, body.clinic, body.branches]).to.deep.equal([at, "Europe/Istanbul", null, []]);
    expect(body.resources.map(({ name }: { name: string }) => name)).to.deep.equal(["Room 1"]);
    const texts = body.changes.map(({ text }: { text: string }) => text);
    expect(texts).to.include.members([
      "Ada Vet became veterinarian, with manage_schedule in Center.",
      "Branch East was opened.",
      "Resource Room 1 was retired.",
      "Application Calendar requested access: clinic:read, appointments:read, appointments:write, animals:link, webhooks:read, webhooks:write, sandbox:read, sandbox:write.",
    ]);
    expect(texts).not.to.include("Ada Vet was hired as veterinarian.");

    const { body: now } = await auditor.request(`/audit/v1/clinic-state?clinic=${clinicId}`);
    expect([now.clinic.status, now.changes, now.isComplete, now.problems]).to.deep.equal(["active", [], true, []]);
    expect(now.branches.map(({ name }: { name: string }) => name)).to.include.members(["Center", "Harbour", "East"]);
    expect(now.resources).to.deep.equal([]);
    expect(now.installations).to.have.length(1);
    expect(now.installations[0]).to.include({ name: "Calendar", animalAccess: "all" });
    expect(now.staff.map(({ name }: { name: string }) => name)).to.deep.equal([null]);
  });

  it("the command `clinic-state` takes a time in the clinic's time zone", async () => {
    const run = (at: string) => world.run(["clinic-state", "--clinic", clinic.clinicId, "--at", at]);
    const { code, output } = await run("2026-03-28 10:00");
    expect([code, ...output.split("\n").slice(0, 2)]).to.deep.equal([
      ...[0, "at: 2026-03-28T10:00:00+03:00", "timeZone: Europe/Istanbul"],
    ]);
    expect((await run("2026-03-28")).output).to.match(/^at: 2026-03-28T00:00:00\+03:00/);
    expect((await run("9999-01-01T00:00:00Z")).output)
      .to.match(/branches:\n {2}NAME +CITY +ID\n {2}Center /)
      .and.match(/resources: none\ninstallations:\n {2}NAME .*\n {2}Calendar +clinic:read, /);
    for (const at of ["yesterday", "2026-02-30", "2026-03-28 25:00"]) expect((await run(at)).code, at).to.equal(2);
  });

  it("the command `readers` says that a list is empty, and that Postgres is unavailable", async () => {
    const args = ["readers", "--clinic", clinic.clinicId, "--from", "2000-01-01", "--to", "2000-01-02"];
    const { code, output } = await world.run(args);
    expect(code).to.equal(0);
    expect(output).to.match(/^readers: none\naccesses: none\n/);
    const env = { ...world.env, DATABASE_URL: "postgres://127.0.0.1:1/none" };
    const unavailable = await world.run(args, env);
    expect([unavailable.code, unavailable.errorLines]).to.deep.equal([
      ...[4, ["audit: Postgres is unavailable (connect ECONNREFUSED 127.0.0.1:1); check DATABASE_URL and try again"]],
    ]);
  });

  it("a clinic outside the auditor's scope does not exist for the auditor", async () => {
    const stranger = await world.registerAuditor([(await createClinic(world.log)).clinicId]);
    const paths = [`clinic-state?clinic=${clinic.clinicId}`, `readers?clinic=${clinic.clinicId}`];
    for (const path of [...paths, `readers?animal=${clinic.animalId}`, `readers?customer=${clinic.customerId}`]) {
      const { status, body } = await stranger.request(`/audit/v1/${path}`);
      expect([status, body.error], path).to.deep.equal([404, "stream_not_found"]);
    }
  });

  it("GET /audit/v1/readers lists staff only while the clinic is operational, and a span for each change of rights", async () => {
    const { log } = world;
    const { clinicId, branchId, animalId, customerId } = clinic;
    await grantMembership(
      log,
      {
        ...grant(["view_clinical"]),
        membershipId: randomUUID(),
        userId: randomUUID(),
        staffId: null,
        acceptedAt: null,
      },
      onDay(5),
    );
    const membershipId = randomUUID();
    const accepted = { userId: ada.userId, staffId: ada.staffId, acceptedAt: new Date(start).toISOString() };
    await grantMembership(log, { ...grant(["view_clinical"]), ...accepted, membershipId }, onDay(5));
    expect(find(await requestReaders(`clinic=${clinicId}`), ada.userId), "without subscription").to.deep.equal([]);
    const subscribe = (status: "active" | "cancelled", currentPeriodEnd: string | null) =>
      changeSubscription(log, { clinicId, plan: "pro", status, currentPeriodEnd }, onDay(6));
    await subscribe("active", null);
    const subscribedAt = await readLastTime(`clinic-${clinicId}`);
    const change = { ...grant(["manage_schedule"], [branchId]), membershipId };
    await changePermissions(log, change, onDay(7));
    const changedAt = await readLastTime(`membership-${membershipId}`);
    await suspendClinic(log, { clinicId, reason: "unpaid" }, onDay(7));
    const suspendedAt = await readLastTime(`clinic-${clinicId}`);
    await reinstateClinic(log, { clinicId }, onDay(7));
    const reinstatedAt = await readLastTime(`clinic-${clinicId}`);
    await revokeMembership(log, { clinicId, membershipId, reason: null }, onDay(8));
    const revokedAt = await readLastTime(`membership-${membershipId}`);
    const clinical = ["view_clinical: customers and animals", "queue of the day"];
    const scheduling = ["manage_schedule: appointments", "queue of the day", "in Center"];
    const staff = { kind: "staff", id: ada.userId, name: "Ada Vet" };
    expect(find(await requestReaders(`animal=${animalId}`), ada.userId)).to.deep.equal([
      { ...staff, access: clinical, from: subscribedAt, to: changedAt },
      { ...staff, access: scheduling, from: changedAt, to: suspendedAt },
      { ...staff, access: scheduling, from: reinstatedAt, to: revokedAt },
    ]);
    const later = new Date(Date.parse(changedAt) + 1).toISOString();
    const inPeriod = await requestReaders(`customer=${customerId}&from=${later}&to=${suspendedAt}`);
    expect(find(inPeriod, ada.userId).map(({ access }) => access)).to.deep.equal([scheduling.toSpliced(1, 1)]);
    const end = new Date(Date.now() + 1_000).toISOString();
    await subscribe("cancelled", end);
    await eventually("the cancelled subscription has ended", async () => {
      const owners = (await requestReaders(`clinic=${clinicId}`)).filter(({ access }) => access[0]?.includes("tenant"));
      return owners.length === 2 && owners[1]?.to === end;
    });
  });

  it("GET /audit/v1/readers lists applications with a link or access to all animals, and auditors with scope and expiry", async () => {
    const { log } = world;
    const { clinicId, animalId } = clinic;
    const application = await createApplication(log);
    const { applicationId } = application;
    await installApplication(log, application, clinic, { animalAccess: "linked", scopes: ["appointments:read"] });
    expect(find(await requestReaders(`animal=${animalId}`), applicationId), "without link").to.deep.equal([]);
    expect(find(await requestReaders(`clinic=${clinicId}`), applicationId)[0]?.access).to.deep.equal([
      ...["appointments:read", "linked animals"],
    ]);
    const linkCodes = createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS));
    const owner = { applicationId, clinicId };
    const request = { ...owner, animalId, covers: "appointments_read" as const, validMinutes: 60 };
    const { secrets } = await createLinkCode({ log, linkCodes }, request, createTestOperatorContext());
    const context = {
      ...createTestOperatorContext(),
      clinicId,
      actor: { type: "application" as const, id: applicationId },
    };
    await redeemLinkCode({ log, linkCodes }, { ...owner, ...secrets, sandbox: null }, context);
    const linkedAt = await readLastTime(`animalConsent-${animalId}`);
    await withdrawLink(log, { ...owner, animalId, requestedBy: "owner" }, createTestOperatorContext());
    const withdrawnAt = await readLastTime(`animalConsent-${animalId}`);
    for (const query of [`animal=${animalId}`, `customer=${clinic.customerId}`]) {
      const spans = find(await requestReaders(query), applicationId);
      expect(
        spans.map(({ from, to }) => [from, to]),
        query,
      ).to.deep.equal([[linkedAt, withdrawnAt]]);
      expect(spans[0]?.access[1]).to.match(/^link .* for appointments_read$/);
    }
    const { lines } = await auditor.request(`/audit/v1/events?animal=${animalId}`);
    expect(lines.map(({ type, actor }) => `${type} by ${actor?.type}`)).to.include.members([
      ...["AnimalLinkCodeCreated by operator", "AnimalLinked by application", "AnimalLinkWithdrawn by operator"],
    ]);
    const { body } = await auditor.request(`/audit/v1/state?stream=animalConsent-${animalId}&at=1`);
    expect(body.state.applications[applicationId].link.covers).to.equal("appointments_read");
    await revokeApplication(log, { applicationId, reason: null }, createTestOperatorContext());
    expect(find(await requestReaders(`clinic=${clinicId}`), applicationId)[0]?.to).not.to.equal(null);

    const expiresAt = new Date(Date.now() + 1_000).toISOString();
    const [expiring, unlimited] = [
      await world.registerAuditor([clinicId], expiresAt),
      await world.registerAuditor(null),
    ];
    const other = await world.registerAuditor([(await createClinic(log)).clinicId]);
    await auditor.revoke();
    await eventually("the credential has expired", async () => {
      const [span] = find(await requestReaders(`animal=${animalId}`, unlimited), expiring.auditorId);
      return span?.to === expiresAt;
    });
    const readers = await requestReaders(`animal=${animalId}`, unlimited);
    expect(find(readers, expiring.auditorId)[0]?.access).to.deep.equal(["this clinic", `expires at ${expiresAt}`]);
    expect(find(readers, unlimited.auditorId)[0]).to.deep.include({ access: ["all clinics", "no expiry"], to: null });
    expect([find(readers, other.auditorId), find(readers, auditor.auditorId)[0]?.to === null]).to.deep.equal([
      [],
      false,
    ]);
    Object.assign(auditor, await world.registerAuditor([clinicId]));
  });

  it("GET /audit/v1/readers lists the readers of an animal from its registration on, also after an earlier erasure", async () => {
    const { log } = world;
    const ownClinic = await createClinicWithHistory(log);
    const { clinicId, customerId, animalId } = ownClinic;
    const reader = await world.registerAuditor([clinicId]);
    const erase = eraseCustomer({
      clinicId,
      customerId,
      categories: ["animal"],
      cause: "retention",
      reason: "24 months",
    });
    await handle(log, customerAggregate, customerId, erase, { ...createTestOperatorContext(), clinicId });
    const app = await createApplication(log);
    await installApplication(log, app, ownClinic, { animalAccess: "all", scopes: ["clinic:read"] });
    const newId = randomUUID();
    const animal = { name: "Rex", species: "dog", breed: null, sex: null, birthDate: null, microchip: null };
    const registration = { clinicId, customerId, animalId: newId, ...animal, weightKg: null };
    await registerAnimal(log, registration, createTestOperatorContext());
    const registeredAt = await readTime(reader, `animal-${newId}`);
    const [span, ...others] = find(await requestReaders(`animal=${newId}`, reader), reader.auditorId);
    expect([span?.from, span?.to, others]).to.deep.equal([registeredAt, null, []]);
    expect(find(await requestReaders(`animal=${newId}`, reader), app.applicationId)).to.deep.equal([]);
    expect(find(await requestReaders(`clinic=${clinicId}`, reader), app.applicationId)).to.have.length(1);
    const erased = await requestReaders(`animal=${animalId}`, reader);
    expect(erased.filter(({ to }) => to === null)).to.deep.equal([]);
  });

  it("the events of a deleted clinic, customer or auditor stream still count, because the log has them", async () => {
    const { clinicId, customerId, animalId } = await createClinicWithHistory(world.log);
    const [reader, deleted] = [await world.registerAuditor([clinicId]), await world.registerAuditor([clinicId])];
    const list = async () => (await reader.request(`/audit/v1/events?stream=customer-${customerId}`)).lines;
    const eventsBefore = await list();
    for (const stream of [`clinic-${clinicId}`, `customer-${customerId}`, `auditor-${deleted.auditorId}`])
      await world.client.deleteStream(stream);
    expect(await list()).to.deep.equal(eventsBefore);
    const { status, text } = await reader.request(`/audit/v1/export?clinic=${clinicId}`);
    expect([status, text.includes('"ClinicRegistered"')]).to.deep.equal([200, true]);
    const { body } = await reader.request(`/audit/v1/clinic-state?clinic=${clinicId}`);
    expect([body.timeZone, body.clinic?.status]).to.deep.equal(["Europe/Istanbul", "active"]);
    for (const query of [`clinic=${clinicId}`, `customer=${customerId}`, `animal=${animalId}`])
      expect(find(await requestReaders(query, reader), deleted.auditorId), query).to.have.length(1);
    const accesses = (await reader.request(`/audit/v1/accesses?stream=clinic-${clinicId}`)).lines;
    expect(accesses.map(({ action }) => action)).to.include.members(["export", "clinic-state", "accesses"]);
  });

  it("GET /audit/v1/readers contains the recorded accesses, and ends all spans at the erasure of the owner", async () => {
    const { animalId, customerId, clinicId } = clinic;
    await auditor.request(`/audit/v1/events?animal=${animalId}`);
    const { body } = await auditor.request(`/audit/v1/readers?animal=${animalId}`);
    expect(body.accesses[1]).to.include({ action: "events", relation: "certain" });
    expect(body.isComplete).to.equal(true);
    expect(body.note).to.match(/^Only accesses of auditors and operators are recorded/);
    const categories: ("contact" | "animal")[] = ["contact", "animal"];
    const erase = eraseCustomer({ clinicId, customerId, categories, cause: "request", reason: "asked" });
    await handle(world.log, customerAggregate, customerId, erase, { ...createTestOperatorContext(), clinicId });
    const erasedAt = await readLastTime(`customer-${customerId}`);
    for (const query of [`animal=${animalId}`, `customer=${customerId}`])
      expect(
        (await requestReaders(query)).map(({ to }) => to === null || to > erasedAt),
        query,
      ).not.to.include(true);
    const { code, output } = await world.run(["readers", "--animal", animalId, "--actor", "ada"]);
    expect(code).to.equal(0);
    expect(output)
      .to.contain("readers:")
      .and.contain("\naccesses:")
      .and.match(/Reads in the portal, reads of partners/)
      .and.not.match(/\bnull\b/);
    expect((await auditor.request("/audit/v1/readers")).body.details[0].message).to.contain("exactly one of");
  });
});
