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
  decideMarkNoShow,
  decidePutInWaiting,
  decideRelease,
  decideReschedule,
  decideStartConsultation,
  foldAppointment,
} from "../../../../shared/domain/appointment/appointment.ts";
import { type AppointmentRequest, decideRequest } from "../../../../shared/domain/appointment/request.ts";
import { clinicAggregate } from "../../../../shared/domain/clinic/clinic.ts";
import { resourceAggregate } from "../../../../shared/domain/clinic/resource.ts";
import type { AppointmentEvent } from "../../../../shared/domain/events/appointment.ts";
import { branchOpened, clinicRegistered, resourceAdded } from "../../../support/clinics.ts";
import { DEFAULT_EVENT_TIME, fold, given } from "../../../support/given.ts";
import { decideOrRefuse } from "../decide-or-refuse.ts";

const [clinicId, branchId, otherBranchId, appointmentId] = ["clinic", "branch", "other", "appointment"];
const now = Date.parse(DEFAULT_EVENT_TIME);
const minutesFromNow = (count: number) => new Date(now + count * 60_000).toISOString();
const request: AppointmentRequest = {
  ...{
    appointmentId,
    clinicId,
    branchId,
    animalId: null,
    scheduledAt: minutesFromNow(60),
    durationMinutes: 30,
  },
  ...{ reason: null, notes: null, applicationId: null, requestHash: "hash", sandboxGeneration: 0 },
};
const facts = {
  clinic: fold(clinicAggregate, [
    clinicRegistered(clinicId),
    branchOpened(clinicId, branchId),
    branchOpened(clinicId, otherBranchId),
  ] as never[])!,
  animal: undefined,
  permittedBranchIds: null,
  now,
};
const resourceOf = (branch: string) => fold(resourceAggregate, [resourceAdded(clinicId, branch, "room")] as never[])!;

const requested: AppointmentEvent = { type: "AppointmentRequested", data: { ...request, customerId: null } };
const eventWithoutData = (
  type: Exclude<
    AppointmentEvent["type"],
    | "AppointmentRequested"
    | "AppointmentImported"
    | "AppointmentCancelled"
    | "AppointmentRescheduled"
    | "ResourceAllocated"
    | "ResourceReleased"
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
).map(eventWithoutData) as [AppointmentEvent, AppointmentEvent, AppointmentEvent, AppointmentEvent, AppointmentEvent];
const allocation = {
  assignmentId: "one",
  allocationStart: minutesFromNow(60),
  allocationEnd: minutesFromNow(90),
};
const allocated: AppointmentEvent = {
  type: "ResourceAllocated",
  data: { appointmentId, ...allocation, resourceId: "room" },
};
const released: AppointmentEvent = { type: "ResourceReleased", data: { appointmentId, assignmentId: "one" } };
const cancelled: AppointmentEvent = { type: "AppointmentCancelled", data: { appointmentId, reason: null } };

const on = (...history: AppointmentEvent[]) => given(appointmentAggregate, ...history);

describe("appointment", () => {
  it("repeating an appointment request changes nothing, even after the requested time", () => {
    on().when(decideRequest(request, facts)).thenEvents(requested);
    on(requested)
      .when(decideRequest(request, { ...facts, now: now + 1e12 }))
      .thenEvents();
    on(requested)
      .when(decideRequest({ ...request, requestHash: "other" }, facts))
      .thenRefused("idempotency_conflict");
  });

  it("an appointment request needs a permitted branch, a known animal and a future time", () => {
    const expectRefused = (overrides: Partial<AppointmentRequest>, moreFacts: Partial<typeof facts> = {}) =>
      on()
        .when(decideRequest({ ...request, ...overrides }, { ...facts, ...moreFacts }))
        .thenRefused("validation_failed");
    expectRefused({ branchId: "elsewhere" });
    expectRefused({}, { permittedBranchIds: [otherBranchId] as never });
    expectRefused({ animalId: "stray" });
    expectRefused({ scheduledAt: DEFAULT_EVENT_TIME });
  });

  it("an appointment passes through all statuses of a visit", () => {
    on(requested).when(decideConfirm()).thenEvents(confirmed);
    on(requested, confirmed).when(decideCheckIn()).thenEvents(checkedIn);
    on(requested, confirmed, checkedIn).when(decidePutInWaiting()).thenEvents(waiting);
    on(requested, confirmed, checkedIn, waiting).when(decideStartConsultation()).thenEvents(started);
    on(requested, confirmed, checkedIn, started).when(decideComplete()).thenEvents(completed);
    on(requested).when(decideCheckIn()).thenEvents(checkedIn);
  });

  it("an appointment can be marked as a no-show only after the start time", () => {
    const noShow = eventWithoutData("AppointmentMarkedNoShow");
    const dueMs = Date.parse(request.scheduledAt);
    on(requested, confirmed).when(decideMarkNoShow(dueMs)).thenEvents(noShow);
    on(requested, confirmed)
      .when(decideMarkNoShow(dueMs - 1))
      .thenRefused("appointment_not_due");
    on(requested).when(decideMarkNoShow(dueMs)).thenRefused("illegal_transition");
  });

  it("cancelling or rescheduling an appointment releases the appointment's resources", () => {
    on(requested, allocated).when(decideCancel(null)).thenEvents(cancelled, released);
    const newSchedule = { scheduledAt: minutesFromNow(120), durationMinutes: 30 };
    on(requested, allocated)
      .when(decideReschedule({ scheduledAt: newSchedule.scheduledAt }, now))
      .thenEvents({ type: "AppointmentRescheduled", data: { appointmentId, ...newSchedule } }, released);
  });

  it("an appointment can be rescheduled only before check-in and only to a future time", () => {
    on(requested)
      .when(decideReschedule({ scheduledAt: request.scheduledAt }, now))
      .thenEvents();
    on(requested)
      .when(decideReschedule({ scheduledAt: DEFAULT_EVENT_TIME }, now))
      .thenRefused("time_not_in_future");
    on(requested, checkedIn)
      .when(decideReschedule({ scheduledAt: minutesFromNow(120) }, now))
      .thenRefused("illegal_transition");
  });

  it("a resource of the branch can be allocated to an appointment and released", () => {
    const allocate = decideAllocate(allocation, resourceOf(branchId));
    on(requested).when(allocate).thenEvents(allocated);
    on(requested, allocated).when(allocate).thenEvents();
    on(requested, allocated).when(decideRelease("one")).thenEvents(released);
    on(requested, allocated, released).when(decideRelease("one")).thenEvents();
    on(requested).when(decideRelease("one")).thenRefused("assignment_not_found");
    on(requested, cancelled).when(allocate).thenRefused("appointment_over");
    on(requested)
      .when(decideAllocate(allocation, resourceOf(otherBranchId)))
      .thenRefused("resource_not_available");
    on(requested)
      .when(decideAllocate({ ...allocation, allocationEnd: allocation.allocationStart }, resourceOf(branchId)))
      .thenRefused("allocation_empty");
    on(requested, allocated)
      .when(decideAllocate({ ...allocation, assignmentId: "two" }, resourceOf(branchId)))
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
    const anyMinutes = fc.integer({ min: -30, max: 300 });
    const command = fc.oneof(
      fc.constant({ what: "confirm", decide: decideConfirm() }),
      fc.constant({ what: "check in", decide: decideCheckIn() }),
      fc.constant({ what: "wait", decide: decidePutInWaiting() }),
      fc.constant({ what: "start", decide: decideStartConsultation() }),
      fc.constant({ what: "complete", decide: decideComplete() }),
      fc.constant({ what: "cancel", decide: decideCancel(null) }),
      anyMinutes.map((minutes) => ({ what: `no-show ${minutes}`, decide: decideMarkNoShow(now + minutes * 60_000) })),
      anyMinutes.map((minutes) => ({
        what: `reschedule ${minutes}`,
        decide: decideReschedule({ scheduledAt: minutesFromNow(minutes) }, now),
      })),
      fc.tuple(fc.constantFrom("one", "two", "three"), anyMinutes, fc.nat(60)).map(([assignmentId, start, length]) => ({
        what: `allocate ${assignmentId} ${start} ${length}`,
        decide: decideAllocate(
          {
            assignmentId,
            allocationStart: minutesFromNow(start),
            allocationEnd: minutesFromNow(start + length),
          },
          resourceOf(branchId),
        ),
      })),
      fc.constantFrom("one", "two", "three").map((assignmentId) => ({
        what: `release ${assignmentId}`,
        decide: decideRelease(assignmentId),
      })),
    );
    fc.assert(
      fc.property(fc.array(command, { maxLength: 30 }), (commands) => {
        let history: AppointmentEvent[] = [requested];
        for (const { decide } of commands) {
          const before = fold(appointmentAggregate, history)!;
          const events = decideOrRefuse(decide, before);
          history = [...history, ...events];
          const after = fold(appointmentAggregate, history)!;
          if (after.status !== before.status) expect(nextStatuses[before.status]).to.include(after.status);
          expectValidState(before, after);
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
    for (const later of activeAssignments.slice(index + 1)) {
      expect(assignment.start >= later.end || later.start >= assignment.end, "allocations overlap").to.equal(true);
    }
  }
  expect(new Set(stateAfter.assignments.map(({ id }) => id)).size).to.equal(stateAfter.assignments.length);
}
