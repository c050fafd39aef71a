import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { handle, loadAggregate } from "../../../command/handling/handle.ts";
import {
  allocateResource,
  cancelAppointment,
  importAppointment,
  releaseResource,
  requestAppointment,
  rescheduleAppointment,
} from "../../../command/operations/appointment-operations.ts";
import { addResource, retireResource, setRule } from "../../../command/operations/catalog-operations.ts";
import { openBranch, registerClinic, setEntitlement } from "../../../command/operations/clinic-operations.ts";
import { placeHold, releaseHold } from "../../../command/operations/front-desk-operations.ts";
import { bookAppointment } from "../../../command/partner-api/book-appointment.ts";
import { createReservingLog } from "../../../command/scheduling/reserving-log.ts";
import { appointmentAggregate } from "../../../shared/domain/appointment/appointment.ts";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { resourceAggregate } from "../../../shared/domain/clinic/resource.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { type AppointmentEvent, requestDefaults } from "../../../shared/domain/events/appointment.ts";
import type { ResourceDayEvent } from "../../../shared/domain/events/scheduling.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { type EventLog, LogUnavailableError, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
import { SCHEDULING_ENTITLEMENT } from "../../../shared/partner-api/slot-search.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { MemoryLog, Steps } from "./memory-log.ts";

const NOW = Date.parse("2027-03-01T08:00:00.000Z");
const MINUTE_MS = 60_000;
const toTime = (minutes: number) => toInstant(NOW + minutes * MINUTE_MS);
const [clinicId, branchId, resourceId] = [randomUUID(), randomUUID(), randomUUID()];
const context = (minutes = 0) => createTestOperatorContext(NOW + minutes * MINUTE_MS);

class ImmediateSteps extends Steps {
  override wait(): Promise<void> {
    return Promise.resolve();
  }
}

describe("places of resources", () => {
  let memory: MemoryLog;
  let log: EventLog;

  beforeEach(async () => {
    memory = new MemoryLog(() => undefined);
    log = memory.connect(new ImmediateSteps(), {
      conflict: WrongExpectedRevisionError,
      unavailable: LogUnavailableError,
    });
    const location = {
      timezone: "UTC",
      currency: "EUR",
      locale: "de-DE",
      city: null,
      isDemo: false,
      demoExpiresAt: null,
    };
    const clinic = { clinicId, environment: "production" as const, slug: "lake-vets", name: "Lake Vets", ...location };
    await registerClinic(log, clinic, context());
    await openBranch(log, { clinicId, branchId, name: "Center", city: null }, context());
    const room = { resourceId, clinicId, branchId, resourceType: "room", name: "Room", capacity: 1, timezone: "UTC" };
    await addResource(log, { ...room, metadata: {} }, context());
  });

  const readDay = (day = "2027-03-01") =>
    (memory.streams.get(`resourceDay-${resourceId}.${day}`)?.at(-1) as ResourceDayEvent | undefined)?.data.reservations;
  const getCode = (work: Promise<unknown>) =>
    work.then(
      () => "done",
      (error: DomainError) => error.code,
    );
  async function request(minutes = 60): Promise<string> {
    const appointmentId = randomUUID();
    await requestAppointment(
      log,
      { appointmentId, clinicId, branchId, animalId: null, scheduledAt: toTime(minutes) },
      context(),
    );
    return appointmentId;
  }
  const allocate = (appointmentId: string, from: number, until: number, assignmentId: string = randomUUID()) => {
    const times = { allocationStart: toTime(from), allocationEnd: toTime(until) };
    return allocateResource(log, { clinicId, appointmentId, assignmentId, resourceId, ...times }, context());
  };
  const importAt = (minutes: number, fields: object = {}) => {
    const details = { ...requestDefaults, animalId: null, customerId: null, requestedAt: null, statusAt: null };
    const ids = { appointmentId: randomUUID(), clinicId, branchId, resourceIds: [resourceId] };
    const status = minutes > 0 ? ("confirmed" as const) : ("completed" as const);
    const { applicationId: _, sandboxGeneration: __, requestHash: ___, textHash: ____, ...known } = details;
    return importAppointment(log, { ...known, ...ids, status, scheduledAt: toTime(minutes), ...fields }, context());
  };
  const hold = (holdId: string, expiresAt = toTime(10), now = 0) => {
    const times = { startsAt: toTime(60), endsAt: toTime(90), expiresAt };
    return placeHold(log, { holdId, clinicId, branchId, resourceId, ...times }, context(now));
  };

  it("waiting reservations of a day are decided together, and no place is given twice", async () => {
    const starts = [60, 60, 90, 90, 120, 120, 150, 150];
    const appointmentIds = await Promise.all(starts.map((start) => request(start)));
    const singleLog = log;
    let appendCount = 0;
    log = {
      ...singleLog,
      append(stream, ...rest) {
        if (stream.startsWith("resourceDay-")) appendCount += 1;
        return singleLog.append(stream, ...rest);
      },
    };
    const codes = await Promise.all(
      appointmentIds.map((id, index) => getCode(allocate(id, starts[index]!, starts[index]! + 30))),
    );
    expect(codes.sort()).to.deep.equal([...Array(4).fill("done"), ...Array(4).fill("slot_taken")]);
    expect(
      readDay()
        ?.map(({ startsAt }) => startsAt)
        .sort(),
    ).to.deep.equal([60, 90, 120, 150].map(toTime));
    expect(appendCount).to.equal(1);
  });

  it("an import is never refused for lack of a place, but records that it exceeds the capacity", async () => {
    await importAt(60);
    await importAt(75);
    expect(readDay()?.map(({ isOverbooked }) => isOverbooked)).to.deep.equal([false, true]);
  });

  it("an imported allocation that has ended takes no place, and one with a later end does", async () => {
    await importAt(-60);
    expect(readDay()).to.equal(undefined);
    await importAt(-60, { resourcesUntil: toTime(3_000) });
    expect(readDay()).to.have.length(1);
    expect(readDay("2027-03-03")).to.have.length(1);
    expect(await getCode(importAt(60, { resourcesUntil: toTime(50) }))).to.equal("validation_failed");
  });

  it("an allocation takes 60 days at most, and a place in each day that it touches", async () => {
    const appointmentId = await request();
    expect(await getCode(allocate(appointmentId, 60, 60 + 86_401))).to.equal("allocation_too_long");
    await allocate(appointmentId, 60, 60 + 86_400);
    const days = [...memory.streams.keys()].filter((stream) => stream.startsWith("resourceDay-"));
    expect(days).to.have.length(61);
    expect(await getCode(allocate(await request(), 86_000, 86_010))).to.equal("slot_taken");
  });

  it("a released place can be allocated at once, and a repeated allocation changes nothing", async () => {
    const [appointmentId, assignmentId] = [await request(), randomUUID()];
    await allocate(appointmentId, 60, 90, assignmentId);
    await allocate(appointmentId, 60, 90, assignmentId);
    expect(readDay()).to.have.length(1);
    await releaseResource(log, { clinicId, appointmentId, assignmentId }, context());
    expect(readDay()).to.deep.equal([]);
    await allocate(await request(), 60, 90);
  });

  it("a hold takes a place until it is released", async () => {
    const holdId = randomUUID();
    await hold(holdId);
    await hold(holdId);
    expect(readDay()).to.have.length(1);
    expect(await getCode(hold(randomUUID()))).to.equal("slot_taken");
    await releaseHold(log, { clinicId, holdId }, context());
    await hold(randomUUID());
  });

  it("whoever needs the place of an expired hold ends the hold", async () => {
    const holdId = randomUUID();
    await hold(holdId);
    await hold(randomUUID(), toTime(50), 20);
    expect(memory.streams.get(`hold-${holdId}`)?.map(({ type }) => type)).to.deep.equal(["HoldPlaced", "HoldReleased"]);
  });

  it("a move to a taken place is refused, and changes nothing", async () => {
    const [first, second] = [await request(60), await request(120)];
    await allocate(first, 60, 90);
    await allocate(second, 120, 150);
    const move = { clinicId, appointmentId: second, scheduledAt: toTime(75), reason: null };
    expect(await getCode(rescheduleAppointment(log, move, context()))).to.equal("slot_taken");
    expect(readDay()).to.have.length(2);
    await rescheduleAppointment(log, { ...move, scheduledAt: toTime(105) }, context());
    expect(readDay()?.map(({ startsAt }) => startsAt)).to.deep.equal([toTime(60), toTime(105)]);
  });

  it("an appointment can be cancelled and its place released although its resource was deleted", async () => {
    const appointmentId = await request();
    await allocate(appointmentId, 60, 90);
    memory.streams.delete(`resource-${resourceId}`);
    await cancelAppointment(log, { clinicId, appointmentId, reason: null }, context());
    expect(readDay()).to.deep.equal([]);
  });

  it("a partner cannot book a retired resource that the service still believes to be active", async () => {
    const entitlement = { clinicId, key: SCHEDULING_ENTITLEMENT, enabled: true, limit: null, effectiveUntil: null };
    await setEntitlement(log, entitlement, context());
    const validity = { ruleType: "opening_hours", recurrence: null, validFrom: null, validUntil: null };
    const rule = { ruleId: randomUUID(), weekday: 1 as const, startsAt: "00:00:00", endsAt: "24:00:00", ...validity };
    await setRule(log, { clinicId, resourceId, ...rule }, context());
    const known = await loadAggregate(log, resourceAggregate, resourceId);
    const clinic = (await loadAggregate(log, clinicAggregate, clinicId)).state!;
    await retireResource(log, { clinicId, resourceId }, context());
    const resources = [{ id: resourceId, capacity: 1, timezone: "UTC", rules: [rule], occupations: [], closures: [] }];
    const slotSearch = { findResources: async () => resources, findClosures: async () => [] } as never;
    const dependencies = { log, load: async () => known as never, slotSearch, clinic, sandbox: null };
    for (const named of [{ resourceId }, { resourceType: "room" }]) {
      const booking = { appointmentId: randomUUID(), branchId, scheduledAt: toTime(60), durationMinutes: 30, ...named };
      const decide = (place: object) => () => {
        const { resourceId: _, resourceType: __, ...fields } = { resourceType: "", ...booking };
        const data = { ...requestDefaults, ...fields, clinicId, animalId: null, customerId: null, ...place };
        return [{ type: "AppointmentRequested" as const, data }];
      };
      const commandContext = { ...context(), clinicId, environment: "production" as const };
      expect(await getCode(bookAppointment(dependencies, booking, decide, commandContext))).to.equal("slot_taken");
    }
  });

  it("a deleted day is not bookable", async () => {
    const failWith = (error: Error): EventLog => ({
      ...log,
      append: (stream, ...rest) =>
        stream.startsWith("resourceDay-") ? Promise.reject(error) : log.append(stream, ...rest),
    });
    const appointmentId = await request();
    const allocation = { clinicId, appointmentId, assignmentId: randomUUID(), resourceId };
    const times = { allocationStart: toTime(60), allocationEnd: toTime(90) };
    const deleted = failWith(new DomainError("object_deleted", "deleted"));
    expect(await getCode(allocateResource(deleted, { ...allocation, ...times }, context()))).to.equal("slot_taken");
  });

  it("a request that lost its place is answered from the appointment that its repetition has made meanwhile", async () => {
    const appointmentId = randomUUID();
    const book = (baseLog: EventLog, id: string) => {
      const place = { assignmentId: randomUUID(), resourceId };
      const ids = { appointmentId: id, clinicId, branchId, animalId: null, customerId: null };
      const event: AppointmentEvent = {
        type: "AppointmentRequested",
        data: { ...requestDefaults, ...ids, scheduledAt: toTime(60), place },
      };
      const commandContext = { ...context(), clinicId, environment: "production" as const };
      const reservingLog = createReservingLog(baseLog, { sandbox: null, overbooks: false, context: commandContext });
      return handle(reservingLog, appointmentAggregate, id, (state) => (state ? [] : [event]), commandContext);
    };
    // While the request waits, its repetition succeeds, the staff moves the appointment, and another takes the place.
    // The events are written directly, because this process waits for its own changes of the day.
    let hasWaited = false;
    const slowLog: EventLog = {
      ...log,
      async append(stream, revision, events) {
        if (stream.startsWith("resourceDay-") && !hasWaited) {
          hasWaited = true;
          const other = new MemoryLog(() => undefined);
          for (const [name, stored] of memory.streams) other.streams.set(name, [...stored]);
          const otherLog = other.connect(new ImmediateSteps(), {
            ...{ conflict: WrongExpectedRevisionError, unavailable: LogUnavailableError },
          });
          const data = { ...requestDefaults, appointmentId, clinicId, branchId, animalId: null, customerId: null };
          const requested = { type: "AppointmentRequested" as const, data: { ...data, scheduledAt: toTime(300) } };
          const [first] = events;
          await otherLog.append(`appointment-${appointmentId}`, -1n, [
            { ...first!, id: randomUUID(), event: requested },
          ]);
          const holderId = randomUUID();
          const taken = structuredClone(first!.event) as ResourceDayEvent;
          taken.data.reservations = taken.data.reservations.map((own) => ({
            ...own,
            holderId,
            reservationId: randomUUID(),
          }));
          await otherLog.append(stream, revision, [{ ...first!, id: randomUUID(), event: taken }]);
          for (const [name, stored] of other.streams) memory.streams.set(name, stored);
        }
        return log.append(stream, revision, events);
      },
    };
    const { events, state } = await book(slowLog, appointmentId);
    expect([hasWaited, events, state?.scheduledAt]).to.deep.equal([true, [], toTime(300)]);
  });
});
