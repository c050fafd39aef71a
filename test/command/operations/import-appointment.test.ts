import { expect } from "chai";
import { appointmentAggregate } from "../../../shared/domain/appointment/appointment.ts";
import {
  type AppointmentImport,
  decideImport,
  deriveOccurredAt,
} from "../../../shared/domain/appointment/import.ts";
import { InvalidAppointmentError } from "../../../shared/domain/appointment/request.ts";
import { animalAggregate } from "../../../shared/domain/clinic/animal.ts";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { customerAggregate } from "../../../shared/domain/clinic/customer.ts";
import { resourceAggregate } from "../../../shared/domain/clinic/resource.ts";
import type { AppointmentEvent } from "../../../shared/domain/events/appointment.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import {
  animalRegistered,
  branchOpened,
  clinicRegistered,
  customerRegistered,
  resourceAdded,
} from "../../support/clinics.ts";
import { DEFAULT_EVENT_TIME, fold, given } from "../../support/given.ts";

const now = Date.parse(DEFAULT_EVENT_TIME);
const minutes = (count: number) => toInstant(now + count * 60_000);
const [clinicId, branchId, appointmentId] = ["clinic", "branch", "appointment"];
const past: AppointmentImport = {
  ...{ appointmentId, clinicId, branchId, animalId: "animal", customerId: null, resourceIds: ["room"] },
  ...{ scheduledAt: minutes(-600), durationMinutes: 30, reason: null, notes: null },
  ...{ status: "completed", requestedAt: minutes(-9_000), statusAt: minutes(-560), requestHash: "hash" },
};
const future: AppointmentImport = {
  ...past,
  ...{ scheduledAt: minutes(600), status: "confirmed", statusAt: null },
};

const of = (owner: string) => ({
  animal: fold(animalAggregate, [animalRegistered(owner, "customer", "animal")] as never[]),
  customer: fold(customerAggregate, [customerRegistered(owner, "customer")] as never[]),
});
const room = (owner: string, branch: string, retired = false) =>
  fold(resourceAggregate, [
    resourceAdded(owner, branch, "room"),
    ...(retired ? [{ type: "ResourceRetired", data: { resourceId: "room" } }] : []),
  ] as never[]);
const facts = {
  clinic: fold(clinicAggregate, [clinicRegistered(clinicId), branchOpened(clinicId, branchId)] as never[])!,
  ...of(clinicId),
  resources: [room(clinicId, branchId)],
  now,
};

const problems = (asked: AppointmentImport, more: Partial<typeof facts> = {}) => {
  try {
    decideImport(asked, { ...facts, ...more })(undefined);
    return [];
  } catch (error) {
    if (!(error instanceof InvalidAppointmentError)) throw error;
    return error.details.map(({ path, message }) => `${path} ${message}`);
  }
};

describe("an imported appointment", () => {
  const { resourceIds: _, ...kept } = past;
  const imported: AppointmentEvent = {
    type: "AppointmentImported",
    data: { ...kept, customerId: "customer" },
  };

  it("has its status, its owner and its resources at once", () => {
    const events = decideImport(past, facts)(undefined);
    expect(events[0]).to.deep.equal(imported);
    expect(events.slice(1).map(({ type, data }) => [type, "resourceId" in data && data.resourceId])).to.eql([
      ["ResourceAllocated", "room"],
    ]);
    const state = fold(appointmentAggregate, events);
    expect(state).to.deep.include({
      status: "completed",
      customerId: "customer",
      createdAt: past.requestedAt,
      updatedAt: DEFAULT_EVENT_TIME,
      applicationId: null,
    });
    expect(state?.assignments).to.have.length(1);
    expect(state?.assignments[0]).to.deep.include({
      ...{ resourceId: "room", start: past.scheduledAt, end: minutes(-570), active: true },
    });
  });

  it("a second import changes nothing, and an import of other data with the same id is refused", () => {
    given(appointmentAggregate, imported).when(decideImport(past, facts)).thenEvents();
    const other = decideImport({ ...past, requestHash: "other" }, facts);
    given(appointmentAggregate, imported).when(other).thenRefused("appointment_exists");
  });

  it("an imported appointment in the future continues like any other", () => {
    expect(problems(future)).to.deep.equal([]);
    const state = fold(appointmentAggregate, [
      ...decideImport({ ...future, status: "requested" }, facts)(undefined),
      { type: "AppointmentConfirmed", data: { appointmentId } },
    ]);
    expect(state?.status).to.equal("confirmed");
  });

  const wrong: [string, AppointmentImport, Partial<typeof facts>, string][] = [
    ["another branch", { ...past, branchId: "x" }, {}, "branchId is not a branch of the clinic"],
    ["a stranger's animal", past, of("stranger"), "animalId is not an animal of the clinic"],
    [
      "a stranger as customer",
      { ...past, customerId: "customer" },
      { customer: of("stranger").customer },
      "customerId is not a customer of the clinic",
    ],
    [
      "a stranger's resource",
      past,
      { resources: [room("stranger", branchId)] },
      "resourceIds.0 is not a resource of the branch",
    ],
    [
      "a resource of another branch",
      past,
      { resources: [room(clinicId, "other")] },
      "resourceIds.0 is not a resource of the branch",
    ],
    [
      "a resource that does not exist",
      past,
      { resources: [undefined] },
      "resourceIds.0 is not a resource of the branch",
    ],
    [
      "a retired resource in the future",
      future,
      { resources: [room(clinicId, branchId, true)] },
      "resourceIds.0 is a retired resource",
    ],
    [
      "an open status in the past",
      { ...past, status: "confirmed" },
      {},
      "status must be completed, cancelled, no_show for an appointment in the past",
    ],
    [
      "a final status in the future",
      { ...future, status: "completed" },
      {},
      "status must be requested, confirmed, cancelled for an appointment in the future",
    ],
    [
      "resources of a cancelled appointment",
      { ...past, status: "cancelled" },
      {},
      "resourceIds must be empty: a cancelled appointment has no resources",
    ],
    ["a status of tomorrow", { ...past, statusAt: minutes(1) }, {}, "statusAt must not be in the future"],
    [
      "a request after its status",
      { ...past, requestedAt: minutes(-1) },
      {},
      "requestedAt must not be after statusAt",
    ],
    [
      "a request of tomorrow",
      { ...past, requestedAt: minutes(1), statusAt: null },
      {},
      "requestedAt must not be in the future",
    ],
  ];
  for (const [what, asked, more, problem] of wrong) {
    it(`is refused with ${what}`, () => expect(problems(asked, more)).to.include(problem));
  }

  it("may have had a resource that is retired today", () => {
    expect(problems(past, { resources: [room(clinicId, branchId, true)] })).to.deep.equal([]);
  });

  const times: [string, Partial<AppointmentImport>, number][] = [
    ["when the file says", {}, -560],
    ["at its end if it was completed", { statusAt: null }, -570],
    ["at its end if nobody came", { statusAt: null, status: "no_show" }, -570],
    ["by its time if it was cancelled", { statusAt: null, status: "cancelled" }, -600],
    ["not before its request", { statusAt: null, status: "cancelled", requestedAt: minutes(-300) }, -300],
    ["not after now", { statusAt: null, status: "cancelled", scheduledAt: minutes(600) }, 0],
    ["at its request if it is to come", { ...future }, -9_000],
    ["now if it is to come and nothing is known", { ...future, requestedAt: null }, 0],
  ];
  for (const [when, more, expected] of times) {
    it(`came to its status ${when}`, () => {
      expect(toInstant(deriveOccurredAt({ ...past, ...more }, now))).to.equal(minutes(expected));
    });
  }
});
