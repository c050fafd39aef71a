import { randomUUID } from "node:crypto";
import { expect } from "chai";
import {
  allocateResource,
  cancelAppointment,
  rescheduleAppointment,
} from "../../../command/operations/appointment-operations.ts";
import { addResource, setRule } from "../../../command/operations/catalog-operations.ts";
import { setBookingRules, setEntitlement } from "../../../command/operations/clinic-operations.ts";
import { placeHold } from "../../../command/operations/front-desk-operations.ts";
import type { Scope } from "../../../shared/domain/events/partner.ts";
import { getWeekday } from "../../../shared/domain/time/local-time.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createClinic,
  createTestOperatorContext,
  installApplication,
  type PartnerResponse,
  type TestClinic,
} from "../../support/partner.ts";
import { type Partner, startPartnerApi } from "../../support/partner-api.ts";
import { useResource } from "../../support/resources.ts";

const DATE = "2099-05-04";
const toTime = (time: string) => `${DATE}T${time}:00.000Z`;

interface Clinic extends TestClinic {
  roomId: string;
}

describe("bookings of free times", function () {
  this.timeout(120_000);
  const api = useResource(startPartnerApi);

  const context = () => createTestOperatorContext();

  async function addRoom({ clinicId, branchId }: TestClinic, capacity = 1, resourceType = "room", name = "Room") {
    const { log } = api.command;
    const resource = { resourceId: randomUUID(), clinicId, branchId, resourceType, name, capacity };
    await addResource(log, { ...resource, timezone: "UTC", metadata: {} }, context());
    const validity = { validFrom: null, validUntil: null, ruleType: "opening_hours", recurrence: null };
    const hours = { weekday: getWeekday(DATE), startsAt: "09:00:00", endsAt: "12:00:00" };
    const { resourceId } = resource;
    await setRule(log, { clinicId, resourceId, ruleId: randomUUID(), ...hours, ...validity }, context());
    return resourceId;
  }

  async function createWorld({ capacity = 1, isEntitled = true, scopes = undefined as Scope[] | undefined } = {}) {
    const clinic = await createClinic(api.command.log);
    const { clinicId } = clinic;
    const entitlement = { clinicId, key: "scheduling.advanced", limit: null, effectiveUntil: null };
    await setEntitlement(api.command.log, { ...entitlement, enabled: isEntitled }, context());
    const roomId = await addRoom(clinic, capacity);
    const partner = await api.createPartner("production");
    await installApplication(api.command.log, partner, clinic, scopes && { scopes });
    // The installation is the last event, so the read models then know the clinic and its room, too.
    await eventually("the installation is known", async () => {
      const { body } = await partner.request("GET", "/slots", { headers: { "X-SERVICE-Clinic-ID": clinicId } });
      return body.error !== "installation_denied";
    });
    return { partner, clinic: { ...clinic, roomId } };
  }

  const getHeaders = ({ clinicId }: TestClinic) => ({ "X-SERVICE-Clinic-ID": clinicId });
  const book = (partner: Partner, clinic: Clinic, fields: object = {}, key: string = randomUUID()) => {
    const { branchId, animalId, roomId } = clinic;
    const body = { branchId, animalId, scheduledAt: toTime("09:00"), resourceId: roomId, ...fields };
    return partner.request("POST", "/appointments", {
      headers: { ...getHeaders(clinic), "Idempotency-Key": key },
      body,
    });
  };
  const listStarts = async (partner: Partner, clinic: Clinic, query = "") => {
    const path = `/slots?from=${DATE}T00:00:00Z&to=${DATE}T23:00:00Z&durationMinutes=60${query}`;
    const { status, body } = await partner.request("GET", path, { headers: getHeaders(clinic) });
    expect(status).to.equal(200);
    return body.slots.map(({ startsAt }: { startsAt: string }) => startsAt.slice(11, 16));
  };
  const getResult = ({ status, body }: PartnerResponse) => [status, body.error ?? body.appointment.status];
  const ALL_STARTS = ["09:00", "09:15", "09:30", "09:45", "10:00", "10:15", "10:30", "10:45", "11:00"];

  it("a partner lists free times and books one, which then is taken", async () => {
    const { partner, clinic } = await createWorld();
    expect(await listStarts(partner, clinic)).to.deep.equal(ALL_STARTS);
    const { status, body } = await book(partner, clinic, { durationMinutes: 60 });
    expect(status).to.equal(201);
    const resources = [{ id: clinic.roomId, allocationStart: toTime("09:00"), allocationEnd: toTime("10:00") }];
    expect(body.appointment).to.deep.include({ status: "requested", durationMinutes: 60, resources, revision: 0 });
    expect(await listStarts(partner, clinic)).to.deep.equal(["10:00", "10:15", "10:30", "10:45", "11:00"]);
    const { body: read } = await partner.request("GET", `/appointments/${body.appointment.id}`, {
      headers: getHeaders(clinic),
    });
    expect(read.appointment).to.deep.equal(body.appointment);
    expect(getResult(await book(partner, clinic, { scheduledAt: toTime("09:45") }))).to.deep.equal([422, "slot_taken"]);
    const { body: events } = await partner.request("GET", "/events", { headers: getHeaders(clinic) });
    const created = events.events.filter(({ type }: { type: string }) => type === "appointment.created");
    expect(created).to.have.length(1);
    expect(created[0].data.appointment.resources).to.deep.equal(resources);
  });

  it("a repeated booking gets the first answer, also after the time was taken and the entitlement ended", async () => {
    const { partner, clinic } = await createWorld();
    const first = await book(partner, clinic, {}, "key-of-booking");
    const entitlement = { clinicId: clinic.clinicId, key: "scheduling.advanced", limit: null, effectiveUntil: null };
    await setEntitlement(api.command.log, { ...entitlement, enabled: false }, context());
    for (let count = 0; count < 2; count += 1) {
      const repeated = await book(partner, clinic, {}, "key-of-booking");
      expect(repeated.body.appointment).to.deep.equal(first.body.appointment);
      expect(repeated.headers.get("Idempotent-Replayed")).to.equal("true");
    }
    for (const fields of [
      { durationMinutes: 45 },
      { resourceId: undefined },
      { resourceId: undefined, resourceType: "room" },
    ])
      expect(getResult(await book(partner, clinic, fields, "key-of-booking"))).to.deep.equal([
        409,
        "idempotency_conflict",
      ]);
  });

  it("a refusal is not remembered: the same key books the place when it is free", async () => {
    const { partner, clinic } = await createWorld();
    const { body } = await book(partner, clinic);
    expect(getResult(await book(partner, clinic, {}, "the-later-key"))).to.deep.equal([422, "slot_taken"]);
    const { clinicId } = clinic;
    await cancelAppointment(api.command.log, { clinicId, appointmentId: body.appointment.id, reason: null }, context());
    expect(getResult(await book(partner, clinic, {}, "the-later-key"))).to.deep.equal([201, "requested"]);
  });

  it("the resources of free times are sorted by name, without regard to capitals and accents", async () => {
    const { partner, clinic } = await createWorld();
    for (const name of ["Zimmer", "Özel", "bath"]) await addRoom(clinic, 1, "room", name);
    await eventually("the resources", async () => {
      const { body } = await partner.request("GET", "/slots", { headers: getHeaders(clinic) });
      const names = body.resources.map(({ name }: { name: string }) => name);
      return names.length === 4 && expect(names).to.deep.equal(["bath", "Özel", "Room", "Zimmer"]);
    });
  });

  it("a booking by type takes any free resource of the type, and confirms it if the clinic says so", async () => {
    const { partner, clinic } = await createWorld();
    await setBookingRules(
      api.command.log,
      { clinicId: clinic.clinicId, gridMinutes: 30, confirmsBookings: true },
      context(),
    );
    const secondRoomId = await addRoom(clinic);
    await eventually("both rooms are listed", async () => {
      const headers = getHeaders(clinic);
      return (await partner.request("GET", "/slots?resourceType=room", { headers })).body.resources.length === 2;
    });
    const byType = { resourceId: undefined, resourceType: "room" };
    const responses = [await book(partner, clinic, byType), await book(partner, clinic, byType)];
    expect(responses.map(getResult)).to.deep.equal([
      [201, "confirmed"],
      [201, "confirmed"],
    ]);
    const ids = responses.map(({ body }) => body.appointment.resources[0].id);
    expect(new Set(ids)).to.deep.equal(new Set([clinic.roomId, secondRoomId]));
    expect(getResult(await book(partner, clinic, byType))).to.deep.equal([422, "slot_taken"]);
    expect(await listStarts(partner, clinic)).to.deep.equal(["09:30", "10:00", "10:30", "11:00"]);
  });

  it("a time that is not offered, an unknown resource, and two kinds of resources are invalid", async () => {
    const { partner, clinic } = await createWorld();
    const other = await createWorld();
    const getPaths = async (fields: object) => {
      const { status, body } = await book(partner, clinic, fields);
      return [status, body.error, ...(body.details ?? []).map(({ path }: { path: string }) => path)];
    };
    for (const scheduledAt of [toTime("08:45"), toTime("09:10"), toTime("11:45")])
      expect(await getPaths({ scheduledAt })).to.deep.equal([422, "validation_failed", "scheduledAt"]);
    for (const resourceId of [randomUUID(), other.clinic.roomId])
      expect(await getPaths({ resourceId })).to.deep.equal([422, "validation_failed", "resourceId"]);
    expect(await getPaths({ branchId: clinic.otherBranchId })).to.deep.equal([422, "validation_failed", "resourceId"]);
    expect(await getPaths({ resourceType: "room" })).to.deep.equal([422, "validation_failed", "resourceType"]);
    expect(await getPaths({ resourceId: undefined, resourceType: "x-ray" })).to.deep.equal([
      ...[422, "validation_failed", "resourceType"],
    ]);
  });

  it("without the entitlement, slots and bookings return 403, and other appointments 201", async () => {
    const { partner, clinic } = await createWorld({ isEntitled: false });
    expect(getResult(await book(partner, clinic))).to.deep.equal([403, "entitlement_required"]);
    const { status, body } = await partner.request("GET", "/slots", { headers: getHeaders(clinic) });
    expect([status, body.error]).to.deep.equal([403, "entitlement_required"]);
    const plain = await book(partner, clinic, { resourceId: undefined });
    expect(plain.body.appointment).to.deep.include({ status: "requested", durationMinutes: 30, resources: [] });
    const long = await book(partner, clinic, { resourceId: undefined, durationMinutes: 90 });
    expect(long.body.appointment.durationMinutes).to.equal(90);
  });

  it("without the scope appointments:read, slots return 403", async () => {
    const { partner, clinic } = await createWorld({ scopes: ["clinic:read"] });
    const { status, body } = await partner.request("GET", "/slots", { headers: getHeaders(clinic) });
    expect([status, body.error]).to.deep.equal([403, "insufficient_scope"]);
  });

  it("staff and partners share the places, and staff exceed the capacity only on purpose", async () => {
    const { partner, clinic } = await createWorld();
    const { clinicId, branchId, roomId: resourceId } = clinic;
    const { log } = api.command;
    const { appointment } = (await book(partner, clinic)).body;
    const { appointment: plain } = (
      await book(partner, clinic, { resourceId: undefined, scheduledAt: toTime("10:00") })
    ).body;
    const allocate = (from: string, until: string, overbooks = false) => {
      const times = { allocationStart: toTime(from), allocationEnd: toTime(until) };
      const allocation = { clinicId, appointmentId: plain.id, assignmentId: randomUUID(), resourceId, ...times };
      return allocateResource(log, allocation, { ...context(), overbooks });
    };
    const refused = await allocate("09:00", "09:30").catch((error) => error.code);
    expect(refused).to.equal("slot_taken");
    await allocate("09:00", "09:30", true);
    const lastEvent = await log.readLast<never>(`resourceDay-${resourceId}.${DATE}`);
    const { reservations } = (lastEvent as unknown as { data: { reservations: { isOverbooked: boolean }[] } }).data;
    expect(reservations.map(({ isOverbooked }) => isOverbooked)).to.deep.equal([false, true]);
    const hold = { clinicId, branchId, resourceId, startsAt: toTime("11:00"), endsAt: toTime("11:30") };
    await placeHold(log, { ...hold, holdId: randomUUID(), expiresAt: toTime("08:00") }, context());
    expect(getResult(await book(partner, clinic, { scheduledAt: toTime("11:00") }))).to.deep.equal([422, "slot_taken"]);
    const move = { clinicId, appointmentId: appointment.id, reason: null };
    const clash = await rescheduleAppointment(log, { ...move, scheduledAt: toTime("11:00") }, context()).catch(
      (e) => e.code,
    );
    expect(clash).to.equal("slot_taken");
    // A move by 15 minutes is no conflict with itself.
    for (const time of ["10:30", "10:15"])
      await rescheduleAppointment(log, { ...move, scheduledAt: toTime(time) }, context());
    expect(getResult(await book(partner, clinic, { scheduledAt: toTime("10:00") }))).to.deep.equal([422, "slot_taken"]);
    expect(getResult(await book(partner, clinic, { scheduledAt: toTime("09:30") }))).to.deep.equal([201, "requested"]);
  });

  it("a hold of the whole branch blocks its resources", async () => {
    const { partner, clinic } = await createWorld();
    const { clinicId, branchId } = clinic;
    const times = { startsAt: toTime("09:00"), endsAt: toTime("10:00"), expiresAt: toTime("08:00") };
    await placeHold(
      api.command.log,
      { clinicId, branchId, holdId: randomUUID(), resourceId: null, ...times },
      context(),
    );
    await eventually("the hold is known", async () => {
      const path = `/slots?from=${DATE}T00:00:00Z&durationMinutes=60`;
      const { body } = await partner.request("GET", path, { headers: getHeaders(clinic) });
      return body.slots?.length === 5;
    });
    expect(getResult(await book(partner, clinic))).to.deep.equal([422, "slot_taken"]);
    const byType = { resourceId: undefined, resourceType: "room" };
    expect(getResult(await book(partner, clinic, byType))).to.deep.equal([422, "slot_taken"]);
  });

  it("in the sandbox, a booking moves and ends with its appointment, and a reset forgets it", async () => {
    const partner = await api.createPartner();
    const { sandbox } = (await partner.request("GET", "/sandbox")).body;
    const headers = { "X-SERVICE-Clinic-ID": sandbox.clinicId };
    const window = `from=${new Date(Date.now() + 7 * 86_400_000).toISOString()}`;
    const search = async () => (await partner.request("GET", `/slots?${window}&limit=1000`, { headers })).body;
    const { slots, resources } = await search();
    const [{ startsAt, resourceIds }] = slots;
    const { branchId } = resources.find(({ id }: { id: string }) => id === resourceIds[0]);
    const create = (scheduledAt: string) =>
      partner.request("POST", "/appointments", {
        headers: { ...headers, "Idempotency-Key": randomUUID() },
        body: { branchId, animalId: sandbox.animals[0].id, scheduledAt, resourceId: resourceIds[0] },
      });
    const { body } = await create(startsAt);
    expect(body.appointment.resources).to.have.length(1);
    expect(getResult(await create(startsAt))).to.deep.equal([422, "slot_taken"]);
    const later = slots.find(
      (slot: { startsAt: string }) => Date.parse(slot.startsAt) >= Date.parse(startsAt) + 3_600_000,
    );
    const change = (suffix: string, changes: object) =>
      partner.request("POST", `/appointments/${body.appointment.id}/${suffix}`, { body: changes });
    const moved = await change("reschedule", { scheduledAt: later.startsAt });
    expect(moved.body.appointment.resources[0].allocationStart).to.equal(later.startsAt);
    expect(getResult(await create(later.startsAt))).to.deep.equal([422, "slot_taken"]);
    const again = await create(startsAt);
    expect(getResult(again)).to.deep.equal([201, "requested"]);
    expect(getResult(await change("reschedule", { scheduledAt: startsAt }))).to.deep.equal([422, "slot_taken"]);
    const cancelled = await change("transitions", { to: "cancelled" });
    expect(cancelled.body.appointment.resources).to.deep.equal([]);
    expect(getResult(await create(later.startsAt))).to.deep.equal([201, "requested"]);
    await partner.request("POST", "/sandbox/reset");
    expect((await search()).slots).to.deep.equal(slots);
    expect(getResult(await create(startsAt))).to.deep.equal([201, "requested"]);
  });
});
