import { expect } from "chai";
import fc from "fast-check";
import * as appointments from "../../../../shared/domain/appointment/appointment.ts";
import {
  type Appointment,
  type AppointmentStatus,
  appointmentAggregate,
  type InvalidAppointmentError,
} from "../../../../shared/domain/appointment/appointment.ts";
import type { AppointmentRequest } from "../../../../shared/domain/appointment/request.ts";
import * as requests from "../../../../shared/domain/appointment/request.ts";
import { animalAggregate } from "../../../../shared/domain/clinic/animal.ts";
import { clinicAggregate } from "../../../../shared/domain/clinic/clinic.ts";
import { customerAggregate } from "../../../../shared/domain/clinic/customer.ts";
import { resourceAggregate } from "../../../../shared/domain/clinic/resource.ts";
import { type AppointmentEvent, requestDefaults } from "../../../../shared/domain/events/appointment.ts";
import type { ConsentCoverage } from "../../../../shared/domain/events/consent.ts";
import type { Erasure } from "../../../../shared/domain/personal-data/erasure.ts";
import {
  animalRegistered,
  branchOpened,
  clinicRegistered,
  customerRegistered,
  resourceAdded,
} from "../../../support/clinics.ts";
import { DEFAULT_EVENT_TIME, fold, given } from "../../../support/given.ts";
import { decideOrRefuse } from "../decide-or-refuse.ts";

const [clinicId, branchId, otherBranchId, appointmentId] = ["clinic", "branch", "other", "appointment"];
const now = Date.parse(DEFAULT_EVENT_TIME);
const toInstantInMinutes = (count: number) => new Date(now + count * 60_000).toISOString();
const request: AppointmentRequest = {
  ...requestDefaults,
  appointmentId,
  clinicId,
  branchId,
  scheduledAt: toInstantInMinutes(60),
  requestHash: "hash",
  textHash: "text",
};
const facts = {
  clinic: fold(clinicAggregate, [
    clinicRegistered(clinicId),
    branchOpened(clinicId, branchId),
    branchOpened(clinicId, otherBranchId),
  ] as never[])!,
  animal: undefined,
  customer: undefined,
  permittedBranchIds: null,
  animalAccess: "appointments_write" as "none" | ConsentCoverage,
  now,
};
/** Creates a customer whose data of the given categories is erased. */
const createCustomer = (...categories: Erasure["categories"]) =>
  fold(customerAggregate, [
    customerRegistered(clinicId, "ada"),
    ...(categories.length > 0
      ? [{ type: "CustomerDataErased", data: { customerId: "ada", categories, cause: "request", reason: "Asked" } }]
      : []),
  ] as never[])!;
const luna = fold(animalAggregate, [animalRegistered(clinicId, "ada", "luna")] as never[])!;
const createResource = (roomBranchId: string) =>
  fold(resourceAggregate, [resourceAdded(clinicId, roomBranchId, "room")] as never[])!;

const requested: AppointmentEvent = { type: "AppointmentRequested", data: { ...request, customerId: null } };
const toEvent = (type: AppointmentEvent["type"]) => ({ type, data: { appointmentId } }) as AppointmentEvent;
const confirmed = toEvent("AppointmentConfirmed");
const checkedIn = toEvent("AppointmentCheckedIn");
const waiting = toEvent("AppointmentPutInWaiting");
const started = toEvent("ConsultationStarted");
const completed = toEvent("AppointmentCompleted");
const allocation = {
  assignmentId: "one",
  allocationStart: toInstantInMinutes(60),
  allocationEnd: toInstantInMinutes(90),
};
const allocated: AppointmentEvent = {
  type: "ResourceAllocated",
  data: { appointmentId, ...allocation, resourceId: "room" },
};
const released: AppointmentEvent = { type: "ResourceReleased", data: { appointmentId, assignmentId: "one" } };
const releasedByCancellation: AppointmentEvent = {
  type: "ResourceReleased",
  data: { appointmentId, assignmentId: "one", isConsequence: true },
};
const moveAllocation = (startMinutes: number, endMinutes: number): AppointmentEvent => {
  const times = { allocationStart: toInstantInMinutes(startMinutes), allocationEnd: toInstantInMinutes(endMinutes) };
  const data = { appointmentId, assignmentId: "one", resourceId: "room", ...times, isConsequence: true as const };
  return { type: "ResourceAllocated", data };
};
const cancelled: AppointmentEvent = { type: "AppointmentCancelled", data: { appointmentId, reason: null } };

const givenAppointment = (...history: AppointmentEvent[]) => given(appointmentAggregate, ...history);

describe("appointment", () => {
  it("repeating an appointment request changes nothing, even after the requested time", () => {
    givenAppointment().when(requests.requestAppointment(request, facts), [requested]);
    givenAppointment(requested).when(requests.requestAppointment(request, { ...facts, now: now + 1e12 }), []);
    for (const otherHash of [{ requestHash: "other" }, { textHash: "other" }])
      givenAppointment(requested).when(
        requests.requestAppointment({ ...request, ...otherHash }, facts),
        "idempotency_conflict",
      );
  });

  it("without access to its branch or a sufficient consent, a repeated request is refused like a new one", () => {
    for (const history of [[], [requested]]) {
      givenAppointment(...history).when(
        requests.requestAppointment(request, { ...facts, permittedBranchIds: [otherBranchId] as never }),
        "validation_failed",
      );
      givenAppointment(...history).when(
        requests.requestAppointment(request, { ...facts, animalAccess: "appointments_read" }),
        "insufficient_consent",
      );
    }
  });

  it("an appointment request needs a permitted branch, a known animal and a future time", () => {
    const expectRefused = (overrides: Partial<AppointmentRequest>, moreFacts: Partial<typeof facts> = {}) =>
      givenAppointment().when(
        requests.requestAppointment({ ...request, ...overrides }, { ...facts, ...moreFacts }),
        "validation_failed",
      );
    expectRefused({ branchId: "elsewhere" });
    expectRefused({}, { permittedBranchIds: [otherBranchId] as never });
    expectRefused({ animalId: "stray" });
    expectRefused({ scheduledAt: DEFAULT_EVENT_TIME });
  });

  it("an animal without access is reported like an unknown animal, also to a repeated request", () => {
    const ofAnimal = { ...request, animalId: "luna" };
    const hidden = {
      ...facts,
      animal: luna,
      customer: createCustomer("contact") as never,
      animalAccess: "none" as const,
    };
    const unknown = { ...facts, animal: undefined };
    const getDetails = (history: AppointmentEvent[], context: typeof hidden | typeof unknown, hash = "hash") => {
      const decide = requests.requestAppointment({ ...ofAnimal, requestHash: hash }, context);
      try {
        return decide(fold(appointmentAggregate, history));
      } catch (error) {
        return [(error as InvalidAppointmentError).code, (error as InvalidAppointmentError).details];
      }
    };
    const requestedBefore: AppointmentEvent = {
      type: "AppointmentRequested",
      data: { ...requested.data, ...ofAnimal, requestHash: "hash" } as never,
    };
    expect(getDetails([], hidden)).to.eql(getDetails([], unknown));
    expect(getDetails([requestedBefore], hidden)).to.eql(getDetails([], unknown));
    expect(getDetails([requestedBefore], hidden, "other")).to.eql(getDetails([requestedBefore], unknown, "other"));
  });

  it("no appointment can be requested for a customer whose contact data is erased", () => {
    const animalId = "luna";
    const decide = (categories: Erasure["categories"]) =>
      requests.requestAppointment(
        { ...request, animalId },
        { ...facts, animal: luna, customer: createCustomer(...categories) },
      );
    const ofCustomer = { ...request, animalId, customerId: "ada" };
    givenAppointment().when(decide(["notes", "animal"]), [{ type: "AppointmentRequested", data: ofCustomer }]);
    givenAppointment().when(decide(["contact"]), "validation_failed");
  });

  it("an appointment passes through all statuses of a visit, and may skip some", () => {
    const visit = [confirmed, checkedIn, waiting, started, completed];
    const shortVisit = [checkedIn, started, completed];
    for (const events of [visit, shortVisit])
      for (const [index, event] of events.entries())
        givenAppointment(requested, ...events.slice(0, index)).when(
          appointments.changeStatus(event.type as "AppointmentConfirmed", now),
          [event],
        );
  });

  it("an appointment can be marked as a no-show only after the start time", () => {
    const noShow = toEvent("AppointmentMarkedNoShow");
    const dueMs = Date.parse(request.scheduledAt);
    givenAppointment(requested, confirmed).when(appointments.changeStatus("AppointmentMarkedNoShow", dueMs), [noShow]);
    givenAppointment(requested, confirmed).when(
      appointments.changeStatus("AppointmentMarkedNoShow", dueMs - 1),
      "appointment_not_due",
    );
    givenAppointment(requested).when(appointments.changeStatus("AppointmentMarkedNoShow", dueMs), "illegal_transition");
    const sandboxRequested = { ...requested, data: { ...requested.data, sandboxGeneration: 1 } };
    givenAppointment(sandboxRequested, confirmed).when(
      appointments.changeStatus("AppointmentMarkedNoShow", dueMs - 1),
      [noShow],
    );
  });

  it("cancelling an appointment releases its resources, and rescheduling moves them with it", () => {
    givenAppointment(requested, allocated).when(appointments.cancelAppointment(null, undefined), [
      releasedByCancellation,
      cancelled,
    ]);
    const newSchedule = { scheduledAt: toInstantInMinutes(120), durationMinutes: 30, reason: "Ill" };
    givenAppointment(requested, allocated).when(
      appointments.rescheduleAppointment({ scheduledAt: newSchedule.scheduledAt, reason: "Ill" }, undefined, now),
      [moveAllocation(120, 150), { type: "AppointmentRescheduled", data: { appointmentId, ...newSchedule } }],
    );
  });

  it("an allocation that is longer than its appointment is as much longer after a move", () => {
    const longAllocation = {
      ...allocation,
      allocationStart: toInstantInMinutes(50),
      allocationEnd: toInstantInMinutes(100),
    };
    const longAllocated = { ...allocated, data: { ...allocated.data, ...longAllocation } } as AppointmentEvent;
    const move = (durationMinutes: number) =>
      appointments.rescheduleAppointment(
        { scheduledAt: toInstantInMinutes(70), durationMinutes, reason: null },
        undefined,
        now,
      )(givenAppointment(requested, longAllocated).state);
    expect(move(60)[0]).to.deep.equal(moveAllocation(60, 140));
    const shortAllocated = { ...allocated, data: { ...allocated.data, allocationEnd: toInstantInMinutes(61) } };
    givenAppointment(requested, shortAllocated as AppointmentEvent).when(
      (state) =>
        appointments
          .rescheduleAppointment(
            { scheduledAt: toInstantInMinutes(60), durationMinutes: 10, reason: null },
            undefined,
            now,
          )(state)
          .slice(0, 1),
      [releasedByCancellation],
    );
  });

  it("only an appointment without a customer can be erased by itself", () => {
    const erasure: Erasure = { categories: ["notes"], cause: "retention", reason: "Kept for 12 months" };
    const erased: AppointmentEvent = { type: "AppointmentDataErased", data: { appointmentId, ...erasure } };
    const erase = appointments.eraseAppointment({ clinicId: request.clinicId, appointmentId, ...erasure });
    const noted: AppointmentEvent = {
      type: "AppointmentRequested",
      data: { ...request, customerId: null, reason: "Limps", notes: "Bites", requestHash: "hash" },
    };
    givenAppointment(noted, completed).when(erase, [erased]);
    const ofCustomer: AppointmentEvent = { ...noted, data: { ...noted.data, customerId: "one" } };
    givenAppointment(ofCustomer).when(erase, "appointment_has_customer");
    givenAppointment(noted, erased).when(erase, []);
    for (const textHash of ["text", "other"])
      givenAppointment(noted, erased).when(requests.requestAppointment({ ...request, textHash }, facts), []);
    expect(givenAppointment(noted, completed, erased).state).to.include({
      status: "completed",
      reason: null,
      notes: null,
      textHash: null,
    });
  });

  it("after an erasure, an appointment can be cancelled without a reason only", () => {
    const erasure: Erasure = { categories: ["contact"], cause: "request", reason: "Request 17" };
    const customer = createCustomer("contact");
    const ofCustomer: AppointmentEvent = { type: "AppointmentRequested", data: { ...request, customerId: "ada" } };
    givenAppointment(ofCustomer).when(appointments.cancelAppointment("Moved", customer), "customer_erased");
    givenAppointment(ofCustomer).when(appointments.cancelAppointment(null, customer), [cancelled]);
    const cancelledWithReason = { ...cancelled, data: { appointmentId, reason: "Moved" } } as AppointmentEvent;
    givenAppointment(ofCustomer).when(appointments.cancelAppointment("Moved", createCustomer()), [cancelledWithReason]);
    const appointmentErased: AppointmentEvent = {
      type: "AppointmentDataErased",
      data: { appointmentId, ...erasure, categories: ["notes"] },
    };
    givenAppointment(requested, appointmentErased).when(
      appointments.cancelAppointment("Moved", undefined),
      "appointment_erased",
    );
    givenAppointment(requested, appointmentErased).when(appointments.cancelAppointment(null, undefined), [cancelled]);
    const move = { scheduledAt: toInstantInMinutes(120), reason: "Moved" };
    givenAppointment(ofCustomer).when(appointments.rescheduleAppointment(move, customer, now), "customer_erased");
    givenAppointment(requested, appointmentErased).when(
      appointments.rescheduleAppointment(move, undefined, now),
      "appointment_erased",
    );
  });

  it("an appointment can be rescheduled only before check-in and only to a future time", () => {
    givenAppointment(requested).when(
      appointments.rescheduleAppointment({ scheduledAt: request.scheduledAt, reason: null }, undefined, now),
      [],
    );
    givenAppointment(requested).when(
      appointments.rescheduleAppointment({ scheduledAt: DEFAULT_EVENT_TIME, reason: null }, undefined, now),
      "validation_failed",
    );
    givenAppointment(requested, checkedIn).when(
      appointments.rescheduleAppointment({ scheduledAt: toInstantInMinutes(120), reason: null }, undefined, now),
      "illegal_transition",
    );
  });

  it("a resource of the branch can be allocated to an appointment and released", () => {
    const allocate = appointments.allocateResource(allocation, createResource(branchId));
    givenAppointment(requested).whenOnce(allocate, allocated);
    givenAppointment(requested, allocated).whenOnce(appointments.releaseResource("one"), released);
    givenAppointment(requested).when(appointments.releaseResource("one"), "assignment_not_found");
    givenAppointment(requested, cancelled).when(allocate, "appointment_over");
    givenAppointment(requested).when(
      appointments.allocateResource(allocation, createResource(otherBranchId)),
      "resource_not_available",
    );
    givenAppointment(requested).when(
      appointments.allocateResource(
        { ...allocation, allocationEnd: allocation.allocationStart },
        createResource(branchId),
      ),
      "allocation_empty",
    );
    givenAppointment(requested).when(
      appointments.allocateResource(
        { ...allocation, allocationEnd: toInstantInMinutes(60 + 86_400.01) },
        createResource(branchId),
      ),
      "allocation_too_long",
    );
    givenAppointment(requested, allocated).when(
      appointments.allocateResource({ ...allocation, assignmentId: "two" }, createResource(branchId)),
      "resource_allocated",
    );
  });

  it("no sequence of commands leads an appointment to an illegal state", () => {
    // Permitted next statuses, specified independently of the deciders.
    const nextStatuses: Record<AppointmentStatus, AppointmentStatus[]> = {
      requested: ["confirmed", "checked_in", "cancelled"],
      confirmed: ["checked_in", "cancelled", "no_show"],
      checked_in: ["waiting", "in_consultation", "cancelled"],
      waiting: ["in_consultation", "cancelled"],
      in_consultation: ["completed"],
      completed: [],
      cancelled: [],
      no_show: [],
    };
    const minutesArbitrary = fc.integer({ min: -30, max: 300 });
    const commandArbitrary = fc.oneof(
      fc.constant({ what: "confirm", decide: appointments.changeStatus("AppointmentConfirmed", now) }),
      fc.constant({ what: "check in", decide: appointments.changeStatus("AppointmentCheckedIn", now) }),
      fc.constant({ what: "wait", decide: appointments.changeStatus("AppointmentPutInWaiting", now) }),
      fc.constant({ what: "start", decide: appointments.changeStatus("ConsultationStarted", now) }),
      fc.constant({ what: "complete", decide: appointments.changeStatus("AppointmentCompleted", now) }),
      fc.constant({ what: "cancel", decide: appointments.cancelAppointment(null, undefined) }),
      minutesArbitrary.map((minutes) => ({
        what: `no-show ${minutes}`,
        decide: appointments.changeStatus("AppointmentMarkedNoShow", now + minutes * 60_000),
      })),
      minutesArbitrary.map((minutes) => ({
        what: `reschedule ${minutes}`,
        decide: appointments.rescheduleAppointment(
          { scheduledAt: toInstantInMinutes(minutes), reason: null },
          undefined,
          now,
        ),
      })),
      fc
        .tuple(fc.constantFrom("one", "two", "three"), minutesArbitrary, fc.nat(60))
        .map(([assignmentId, startMinutes, lengthMinutes]) => ({
          what: `allocate ${assignmentId} ${startMinutes} ${lengthMinutes}`,
          decide: appointments.allocateResource(
            {
              assignmentId,
              allocationStart: toInstantInMinutes(startMinutes),
              allocationEnd: toInstantInMinutes(startMinutes + lengthMinutes),
            },
            createResource(branchId),
          ),
        })),
      fc.constantFrom("one", "two", "three").map((assignmentId) => ({
        what: `release ${assignmentId}`,
        decide: appointments.releaseResource(assignmentId),
      })),
    );
    fc.assert(
      fc.property(fc.array(commandArbitrary, { maxLength: 30 }), (commands) => {
        let history: AppointmentEvent[] = [requested];
        for (const { decide } of commands) {
          const stateBefore = fold(appointmentAggregate, history)!;
          const events = decideOrRefuse(decide, stateBefore);
          history = [...history, ...events];
          const stateAfter = fold(appointmentAggregate, history)!;
          if (stateAfter.status !== stateBefore.status)
            expect(nextStatuses[stateBefore.status]).to.include(stateAfter.status);
          expectValidState(stateBefore, stateAfter);
        }
        for (let length = 0; length <= history.length; length += 1) expectFold(history.slice(0, length));
      }),
      { numRuns: 500 },
    );
  });
});

/** Checks that a history yields a state, and that a history without its first event yields none. */
function expectFold(history: AppointmentEvent[]): void {
  const state = fold(appointmentAggregate, history);
  expect(state?.id).to.equal(history.length === 0 ? undefined : appointmentId);
  expect(fold(appointmentAggregate, history.slice(1))).to.equal(undefined);
}

function expectValidState(stateBefore: Appointment, stateAfter: Appointment): void {
  const activeAssignments = stateAfter.assignments.filter((assignment) => assignment.active);
  if (stateAfter.status === "cancelled" || stateAfter.status === "no_show") expect(activeAssignments).to.deep.equal([]);
  if (stateAfter.scheduledAt !== stateBefore.scheduledAt) {
    expect(stateBefore.status).to.be.oneOf(["requested", "confirmed"]);
    expect(Date.parse(stateAfter.scheduledAt)).to.be.above(now);
  }
  for (const [index, assignment] of activeAssignments.entries()) {
    expect(assignment.start < assignment.end).to.equal(true);
    for (const laterAssignment of activeAssignments.slice(index + 1))
      expect(
        assignment.start >= laterAssignment.end || laterAssignment.start >= assignment.end,
        "allocations overlap",
      ).to.equal(true);
  }
  expect(new Set(stateAfter.assignments.map(({ id }) => id)).size).to.equal(stateAfter.assignments.length);
}
