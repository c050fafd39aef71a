import { expect } from "chai";
import fc from "fast-check";
import {
  type Appointment,
  type AppointmentStatus,
  appointmentAggregate,
  decideAllocate,
  decideCancel,
  decideCheckIn,
  decideComplete,
  decideConfirm,
  decideEraseAppointment,
  decideMarkNoShow,
  decidePutInWaiting,
  decideRelease,
  decideReschedule,
  decideStartConsultation,
  foldAppointment,
} from "../../../../shared/domain/appointment/appointment.ts";
import {
  type AppointmentRequest,
  decideRequest,
  type InvalidAppointmentError,
} from "../../../../shared/domain/appointment/request.ts";
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
const createResource = (roomBranchId: string) =>
  fold(resourceAggregate, [resourceAdded(clinicId, roomBranchId, "room")] as never[])!;

const requested: AppointmentEvent = { type: "AppointmentRequested", data: { ...request, customerId: null } };
const createEventWithoutData = (
  type: Exclude<
    AppointmentEvent["type"],
    | "AppointmentRequested"
    | "AppointmentImported"
    | "AppointmentCancelled"
    | "AppointmentRescheduled"
    | "ResourceAllocated"
    | "ResourceReleased"
    | "AppointmentDataErased"
  >,
): AppointmentEvent => ({ type, data: { appointmentId } });
const [confirmed, checkedIn, waiting, started, completed] = (
  [
    "AppointmentConfirmed",
    "AppointmentCheckedIn",
    "AppointmentPutInWaiting",
    "ConsultationStarted",
    "AppointmentCompleted",
  ] as const
).map(createEventWithoutData) as [
  AppointmentEvent,
  AppointmentEvent,
  AppointmentEvent,
  AppointmentEvent,
  AppointmentEvent,
];
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
const cancelled: AppointmentEvent = { type: "AppointmentCancelled", data: { appointmentId, reason: null } };

const givenAppointment = (...history: AppointmentEvent[]) => given(appointmentAggregate, ...history);

describe("appointment", () => {
  it("repeating an appointment request changes nothing, even after the requested time", () => {
    givenAppointment().when(decideRequest(request, facts)).thenEvents(requested);
    givenAppointment(requested)
      .when(decideRequest(request, { ...facts, now: now + 1e12 }))
      .thenEvents();
    for (const otherHash of [{ requestHash: "other" }, { textHash: "other" }])
      givenAppointment(requested)
        .when(decideRequest({ ...request, ...otherHash }, facts))
        .thenRefused("idempotency_conflict");
  });

  it("without access to its branch or a sufficient consent, a repeated request is refused like a new one", () => {
    for (const history of [[], [requested]]) {
      givenAppointment(...history)
        .when(decideRequest(request, { ...facts, permittedBranchIds: [otherBranchId] as never }))
        .thenRefused("validation_failed");
      givenAppointment(...history)
        .when(decideRequest(request, { ...facts, animalAccess: "appointments_read" }))
        .thenRefused("insufficient_consent");
    }
  });

  it("an appointment request needs a permitted branch, a known animal and a future time", () => {
    const expectRefused = (overrides: Partial<AppointmentRequest>, moreFacts: Partial<typeof facts> = {}) =>
      givenAppointment()
        .when(decideRequest({ ...request, ...overrides }, { ...facts, ...moreFacts }))
        .thenRefused("validation_failed");
    expectRefused({ branchId: "elsewhere" });
    expectRefused({}, { permittedBranchIds: [otherBranchId] as never });
    expectRefused({ animalId: "stray" });
    expectRefused({ scheduledAt: DEFAULT_EVENT_TIME });
  });

  it("an animal without access is reported like an unknown animal, also to a repeated request", () => {
    const animal = fold(animalAggregate, [animalRegistered(clinicId, "ada", "luna")] as never[])!;
    const ofAnimal = { ...request, animalId: "luna" };
    const customer = fold(customerAggregate, [
      customerRegistered(clinicId, "ada"),
      {
        type: "CustomerDataErased",
        data: { customerId: "ada", categories: ["contact"], cause: "request", reason: "Asked" },
      },
    ] as never[]) as never;
    const hidden = { ...facts, animal, customer, animalAccess: "none" as const };
    const unknown = { ...facts, animal: undefined };
    const getDetails = (history: AppointmentEvent[], context: typeof hidden | typeof unknown, hash = "hash") => {
      const decide = decideRequest({ ...ofAnimal, requestHash: hash }, context);
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
    const [animalId, customerId] = ["luna", "ada"];
    const animal = fold(animalAggregate, [animalRegistered(clinicId, customerId, animalId)] as never[])!;
    const createCustomer = (categories: Erasure["categories"]) =>
      fold(customerAggregate, [
        customerRegistered(clinicId, customerId),
        { type: "CustomerDataErased", data: { customerId, categories, cause: "request", reason: "Asked" } },
      ] as never[])!;
    const decide = (categories: Erasure["categories"]) =>
      decideRequest({ ...request, animalId }, { ...facts, animal, customer: createCustomer(categories) });
    const ofCustomer = { ...request, animalId, customerId };
    givenAppointment()
      .when(decide(["notes", "animal"]))
      .thenEvents({ type: "AppointmentRequested", data: ofCustomer });
    givenAppointment()
      .when(decide(["contact"]))
      .thenRefused("validation_failed");
  });

  it("an appointment passes through all statuses of a visit", () => {
    givenAppointment(requested).when(decideConfirm()).thenEvents(confirmed);
    givenAppointment(requested, confirmed).when(decideCheckIn()).thenEvents(checkedIn);
    givenAppointment(requested, confirmed, checkedIn).when(decidePutInWaiting()).thenEvents(waiting);
    givenAppointment(requested, confirmed, checkedIn, waiting).when(decideStartConsultation()).thenEvents(started);
    givenAppointment(requested, confirmed, checkedIn, started).when(decideComplete()).thenEvents(completed);
    givenAppointment(requested).when(decideCheckIn()).thenEvents(checkedIn);
  });

  it("an appointment can be marked as a no-show only after the start time", () => {
    const noShow = createEventWithoutData("AppointmentMarkedNoShow");
    const dueMs = Date.parse(request.scheduledAt);
    givenAppointment(requested, confirmed).when(decideMarkNoShow(dueMs)).thenEvents(noShow);
    givenAppointment(requested, confirmed)
      .when(decideMarkNoShow(dueMs - 1))
      .thenRefused("appointment_not_due");
    givenAppointment(requested).when(decideMarkNoShow(dueMs)).thenRefused("illegal_transition");
    const sandboxRequested = { ...requested, data: { ...requested.data, sandboxGeneration: 1 } };
    givenAppointment(sandboxRequested, confirmed)
      .when(decideMarkNoShow(dueMs - 1))
      .thenEvents(noShow);
  });

  it("cancelling or rescheduling an appointment releases the appointment's resources", () => {
    givenAppointment(requested, allocated).when(decideCancel(null, undefined)).thenEvents(cancelled, released);
    const newSchedule = { scheduledAt: toInstantInMinutes(120), durationMinutes: 30, reason: "Ill" };
    givenAppointment(requested, allocated)
      .when(decideReschedule({ scheduledAt: newSchedule.scheduledAt, reason: "Ill" }, undefined, now))
      .thenEvents({ type: "AppointmentRescheduled", data: { appointmentId, ...newSchedule } }, released);
  });

  it("only an appointment without a customer can be erased by itself", () => {
    const erasure: Erasure = { categories: ["notes"], cause: "retention", reason: "Kept for 12 months" };
    const erased: AppointmentEvent = { type: "AppointmentDataErased", data: { appointmentId, ...erasure } };
    const noted: AppointmentEvent = {
      type: "AppointmentRequested",
      data: { ...request, customerId: null, reason: "Limps", notes: "Bites", requestHash: "hash" },
    };
    givenAppointment(noted, completed).when(decideEraseAppointment(erasure)).thenEvents(erased);
    const ofCustomer: AppointmentEvent = { ...noted, data: { ...noted.data, customerId: "one" } };
    givenAppointment(ofCustomer).when(decideEraseAppointment(erasure)).thenRefused("appointment_has_customer");
    givenAppointment(noted, erased).when(decideEraseAppointment(erasure)).thenEvents();
    for (const textHash of ["text", "other"])
      givenAppointment(noted, erased)
        .when(decideRequest({ ...request, textHash }, facts))
        .thenEvents();
    expect(givenAppointment(noted, completed, erased).state).to.include({
      status: "completed",
      reason: null,
      notes: null,
      textHash: null,
    });
  });

  it("after an erasure, an appointment can be cancelled without a reason only", () => {
    const erasure: Erasure = { categories: ["contact"], cause: "request", reason: "Request 17" };
    const customerErased = { type: "CustomerDataErased", data: { customerId: "one", ...erasure } };
    const history = [customerRegistered(clinicId, "one"), customerErased] as never[];
    const customer = fold(customerAggregate, history);
    const ofCustomer: AppointmentEvent = { type: "AppointmentRequested", data: { ...request, customerId: "one" } };
    givenAppointment(ofCustomer).when(decideCancel("Moved", customer)).thenRefused("customer_erased");
    givenAppointment(ofCustomer).when(decideCancel(null, customer)).thenEvents(cancelled);
    const registeredCustomer = fold(customerAggregate, history.slice(0, 1));
    const cancelledWithReason = { ...cancelled, data: { appointmentId, reason: "Moved" } } as AppointmentEvent;
    givenAppointment(ofCustomer).when(decideCancel("Moved", registeredCustomer)).thenEvents(cancelledWithReason);
    const appointmentErased: AppointmentEvent = {
      type: "AppointmentDataErased",
      data: { appointmentId, ...erasure, categories: ["notes"] },
    };
    givenAppointment(requested, appointmentErased)
      .when(decideCancel("Moved", undefined))
      .thenRefused("appointment_erased");
    givenAppointment(requested, appointmentErased).when(decideCancel(null, undefined)).thenEvents(cancelled);
    const move = { scheduledAt: toInstantInMinutes(120), reason: "Moved" };
    givenAppointment(ofCustomer)
      .when(decideReschedule(move, customer, now))
      .thenRefused("customer_erased");
    givenAppointment(requested, appointmentErased)
      .when(decideReschedule(move, undefined, now))
      .thenRefused("appointment_erased");
  });

  it("an appointment can be rescheduled only before check-in and only to a future time", () => {
    givenAppointment(requested)
      .when(decideReschedule({ scheduledAt: request.scheduledAt, reason: null }, undefined, now))
      .thenEvents();
    givenAppointment(requested)
      .when(decideReschedule({ scheduledAt: DEFAULT_EVENT_TIME, reason: null }, undefined, now))
      .thenRefused("time_not_in_future");
    givenAppointment(requested, checkedIn)
      .when(decideReschedule({ scheduledAt: toInstantInMinutes(120), reason: null }, undefined, now))
      .thenRefused("illegal_transition");
  });

  it("a resource of the branch can be allocated to an appointment and released", () => {
    const allocate = decideAllocate(allocation, createResource(branchId));
    givenAppointment(requested).when(allocate).thenEvents(allocated);
    givenAppointment(requested, allocated).when(allocate).thenEvents();
    givenAppointment(requested, allocated).when(decideRelease("one")).thenEvents(released);
    givenAppointment(requested, allocated, released).when(decideRelease("one")).thenEvents();
    givenAppointment(requested).when(decideRelease("one")).thenRefused("assignment_not_found");
    givenAppointment(requested, cancelled).when(allocate).thenRefused("appointment_over");
    givenAppointment(requested)
      .when(decideAllocate(allocation, createResource(otherBranchId)))
      .thenRefused("resource_not_available");
    givenAppointment(requested)
      .when(decideAllocate({ ...allocation, allocationEnd: allocation.allocationStart }, createResource(branchId)))
      .thenRefused("allocation_empty");
    givenAppointment(requested)
      .when(
        decideAllocate({ ...allocation, allocationEnd: toInstantInMinutes(60 + 1_440.01) }, createResource(branchId)),
      )
      .thenRefused("allocation_too_long");
    givenAppointment(requested, allocated)
      .when(decideAllocate({ ...allocation, assignmentId: "two" }, createResource(branchId)))
      .thenRefused("resource_allocated");
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
      fc.constant({ what: "confirm", decide: decideConfirm() }),
      fc.constant({ what: "check in", decide: decideCheckIn() }),
      fc.constant({ what: "wait", decide: decidePutInWaiting() }),
      fc.constant({ what: "start", decide: decideStartConsultation() }),
      fc.constant({ what: "complete", decide: decideComplete() }),
      fc.constant({ what: "cancel", decide: decideCancel(null, undefined) }),
      minutesArbitrary.map((minutes) => ({
        what: `no-show ${minutes}`,
        decide: decideMarkNoShow(now + minutes * 60_000),
      })),
      minutesArbitrary.map((minutes) => ({
        what: `reschedule ${minutes}`,
        decide: decideReschedule({ scheduledAt: toInstantInMinutes(minutes), reason: null }, undefined, now),
      })),
      fc
        .tuple(fc.constantFrom("one", "two", "three"), minutesArbitrary, fc.nat(60))
        .map(([assignmentId, startMinutes, lengthMinutes]) => ({
          what: `allocate ${assignmentId} ${startMinutes} ${lengthMinutes}`,
          decide: decideAllocate(
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
        decide: decideRelease(assignmentId),
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
        for (let length = 0; length <= history.length; length += 1) expectSameFolds(history.slice(0, length));
      }),
      { numRuns: 500 },
    );
  });
});

/**
 * Expects that `fold` and `foldAppointment` return the same state for a history. Expects no state if the first event is
 * missing.
 */
function expectSameFolds(history: AppointmentEvent[]): void {
  const pastEvents = history.map((event) => ({ ...event, metadata: { occurredAt: DEFAULT_EVENT_TIME } }));
  const state = fold(appointmentAggregate, history);
  expect(foldAppointment(pastEvents)).to.deep.equal(state);
  expect(state?.id).to.equal(history.length === 0 ? undefined : appointmentId);
  expect(foldAppointment(pastEvents.slice(1))).to.equal(undefined);
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
    for (const laterAssignment of activeAssignments.slice(index + 1)) {
      expect(
        assignment.start >= laterAssignment.end || laterAssignment.start >= assignment.end,
        "allocations overlap",
      ).to.equal(true);
    }
  }
  expect(new Set(stateAfter.assignments.map(({ id }) => id)).size).to.equal(stateAfter.assignments.length);
}
