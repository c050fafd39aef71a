import { expect } from "chai";
import { appointmentAggregate, InvalidAppointmentError } from "../../../shared/domain/appointment/appointment.ts";
import * as imports from "../../../shared/domain/appointment/import.ts";
import { type AppointmentImport, deriveOccurredAt } from "../../../shared/domain/appointment/import.ts";
import { animalAggregate } from "../../../shared/domain/clinic/animal.ts";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { customerAggregate } from "../../../shared/domain/clinic/customer.ts";
import { resourceAggregate } from "../../../shared/domain/clinic/resource.ts";
import { type AppointmentEvent, detailDefaults } from "../../../shared/domain/events/appointment.ts";
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
const toInstantInMinutes = (minutes: number) => toInstant(now + minutes * 60_000);
const [clinicId, branchId, appointmentId] = ["clinic", "branch", "appointment"];
const pastImport: AppointmentImport = {
  ...detailDefaults,
  appointmentId,
  clinicId,
  branchId,
  animalId: "animal",
  resourceIds: ["room"],
  scheduledAt: toInstantInMinutes(-600),
  status: "completed",
  requestedAt: toInstantInMinutes(-9_000),
  statusAt: toInstantInMinutes(-560),
  requestHash: "hash",
  textHash: "text",
};
const futureImport: AppointmentImport = {
  ...pastImport,
  scheduledAt: toInstantInMinutes(600),
  status: "confirmed",
  statusAt: null,
};

const createOwnedStates = (ownerId: string) => ({
  animal: fold(animalAggregate, [animalRegistered(ownerId, "customer", "animal")] as never[]),
  customer: fold(customerAggregate, [customerRegistered(ownerId, "customer")] as never[]),
});
const createRoom = (ownerId: string, branchId: string, isRetired = false) =>
  fold(resourceAggregate, [
    resourceAdded(ownerId, branchId, "room"),
    ...(isRetired ? [{ type: "ResourceRetired", data: { resourceId: "room" } }] : []),
  ] as never[]);
const facts = {
  clinic: fold(clinicAggregate, [clinicRegistered(clinicId), branchOpened(clinicId, branchId)] as never[])!,
  ...createOwnedStates(clinicId),
  resources: [createRoom(clinicId, branchId)],
  now,
};

const findProblems = (input: AppointmentImport, moreFacts: Partial<typeof facts> = {}) => {
  try {
    imports.importAppointment(input, { ...facts, ...moreFacts })(undefined);
    return [];
  } catch (error) {
    if (!(error instanceof InvalidAppointmentError)) throw error;
    return error.details.map(({ path, message }) => `${path} ${message}`);
  }
};

describe("an imported appointment", () => {
  const { resourceIds: _, ...storedFields } = pastImport;
  const importedEvent: AppointmentEvent = {
    type: "AppointmentImported",
    data: { ...storedFields, customerId: "customer" },
  };

  it("the events of an imported appointment contain the status, the customer and the resources", () => {
    const events = imports.importAppointment(pastImport, facts)(undefined);
    expect(events[0]).to.deep.equal(importedEvent);
    expect(events.slice(1).map(({ type, data }) => [type, "resourceId" in data && data.resourceId])).to.eql([
      ["ResourceAllocated", "room"],
    ]);
    const state = fold(appointmentAggregate, events);
    expect(state).to.deep.include({
      status: "completed",
      customerId: "customer",
      createdAt: pastImport.requestedAt,
      updatedAt: DEFAULT_EVENT_TIME,
      applicationId: null,
    });
    expect(state?.assignments).to.have.length(1);
    expect(state?.assignments[0]).to.deep.include({
      resourceId: "room",
      start: pastImport.scheduledAt,
      end: toInstantInMinutes(-570),
      active: true,
    });
  });

  it("a second import of an appointment changes nothing, and other data with the same id is refused", () => {
    given(appointmentAggregate, importedEvent).when(imports.importAppointment(pastImport, facts), []);
    for (const otherHash of [{ requestHash: "other" }, { textHash: "other" }])
      given(appointmentAggregate, importedEvent).when(
        imports.importAppointment({ ...pastImport, ...otherHash }, facts),
        "appointment_exists",
      );
  });

  it("an imported appointment in the future can be confirmed like any other appointment", () => {
    expect(findProblems(futureImport)).to.deep.equal([]);
    const state = fold(appointmentAggregate, [
      ...imports.importAppointment({ ...futureImport, status: "requested" }, facts)(undefined),
      { type: "AppointmentConfirmed", data: { appointmentId } },
    ]);
    expect(state?.status).to.equal("confirmed");
  });

  const { animal, customer } = createOwnedStates("other-clinic");
  const room = (owner: string, branch: string, isRetired = false) => ({
    resources: [createRoom(owner, branch, isRetired)],
  });
  const noResource = "resourceIds.0 is not a resource of the branch";
  const future = { scheduledAt: futureImport.scheduledAt, statusAt: null };
  const [pastStatus, futureStatus] = [
    "status must be one of completed, cancelled, no_show for an appointment in the past",
    "status must be one of requested, confirmed, cancelled for an appointment in the future",
  ];
  const cancelled = "resourceIds must be empty: a cancelled appointment has no resources";
  const later = toInstantInMinutes(1);
  const retired = "resourceIds.0 is a retired resource";
  const wrongImports: [string, Partial<AppointmentImport>, Partial<typeof facts>, string][] = [
    ["another branch", { branchId: "x" }, {}, "branchId is not a branch of the clinic"],
    ["an animal of another clinic", {}, { animal, customer }, "animalId is not an animal of the clinic"],
    ["a foreign customer", { customerId: "customer" }, { customer }, "customerId is not a customer of the clinic"],
    ["a resource of another clinic", {}, room("other-clinic", branchId), noResource],
    ["a resource of another branch", {}, room(clinicId, "other"), noResource],
    ["a resource that does not exist", {}, { resources: [undefined] }, noResource],
    ["a retired resource", { ...future, status: "confirmed" }, room(clinicId, branchId, true), retired],
    ["an open status for a past appointment", { status: "confirmed" }, {}, pastStatus],
    ["a final status for a future appointment", { ...future, status: "completed" }, {}, futureStatus],
    ["resources of a cancelled appointment", { status: "cancelled" }, {}, cancelled],
    ["`statusAt` in the future", { statusAt: later }, {}, "statusAt must not be in the future"],
    ["`requestedAt` after `statusAt`", { requestedAt: toInstantInMinutes(-1) }, {}, "requestedAt must not be after"],
    [
      "`requestedAt` in the future",
      { requestedAt: later, statusAt: null },
      {},
      "requestedAt must not be in the future",
    ],
  ];
  for (const [caseName, overrides, moreFacts, problem] of wrongImports)
    it(`an imported appointment is refused with ${caseName}`, () =>
      expect(findProblems({ ...pastImport, ...overrides }, moreFacts).join("; ")).to.include(problem));

  it("an imported appointment in the past may use a resource that has since been retired", () => {
    expect(findProblems(pastImport, { resources: [createRoom(clinicId, branchId, true)] })).to.deep.equal([]);
  });

  const statusTimes: [string, Partial<AppointmentImport>, number][] = [
    ["`statusAt`", {}, -560],
    ["the end of a completed appointment if `statusAt` is unknown", { statusAt: null }, -570],
    ["the end of a missed appointment if `statusAt` is unknown", { statusAt: null, status: "no_show" }, -570],
    ["the start of a cancelled appointment if `statusAt` is unknown", { statusAt: null, status: "cancelled" }, -600],
    [
      "`requestedAt` for a cancelled appointment that started before `requestedAt`",
      { statusAt: null, status: "cancelled", requestedAt: toInstantInMinutes(-300) },
      -300,
    ],
    [
      "the current time for a cancelled future appointment",
      { statusAt: null, status: "cancelled", scheduledAt: toInstantInMinutes(600) },
      0,
    ],
    ["`requestedAt` for a future appointment that was not cancelled", { ...futureImport }, -9_000],
    [
      "the current time for a future appointment if `requestedAt` is unknown",
      { ...futureImport, requestedAt: null },
      0,
    ],
  ];
  for (const [timeName, overrides, minutes] of statusTimes)
    it(`the derived status time of an imported appointment is ${timeName}`, () => {
      expect(toInstant(deriveOccurredAt({ ...pastImport, ...overrides }, now))).to.equal(toInstantInMinutes(minutes));
    });
});
