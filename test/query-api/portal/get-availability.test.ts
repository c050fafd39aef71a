import { randomUUID } from "node:crypto";
import { expect } from "chai";
import {
  appointmentRequested,
  availabilityRuleSet,
  createIds,
  holdPlaced,
  openClinic,
  resourceAdded,
  resourceAllocated,
} from "../../support/clinics.ts";
import { setUpQueryApi } from "../../support/query-api.ts";

/** Query for 3 March 2026 in Istanbul (UTC+3). */
const dayQuery = "from=2026-03-02T21:00:00Z&to=2026-03-03T21:00:00Z";

describe("getAvailability", () => {
  const api = setUpQueryApi();

  const readAvailability = (userId: string, query = dayQuery) => api.read(`/api/v1/availability?${query}`, userId);

  const listIds = (items: { id: string }[]) => items.map(({ id }) => id);

  const ruleSet = (resourceId: string, ruleId: string, validFrom: string | null, validUntil: string | null) =>
    availabilityRuleSet({ resourceId, ruleId, validFrom, validUntil });

  it("getAvailability returns resources, rules, assignments and holds, but no field `generatedAt`", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const [roomId, ruleId, appointmentId, assignmentId, holdId] = createIds();
    await api.given(
      resourceAdded(clinicId, branchId, roomId, { capacity: 1.5, metadata: { floor: 2 } }),
      ruleSet(roomId, ruleId, "2026-01-01", null),
      appointmentRequested(clinicId, branchId, "2026-03-03T09:00:00Z", { appointmentId }),
      resourceAllocated({ appointmentId, assignmentId, resourceId: roomId }),
      holdPlaced({ holdId, clinicId, branchId, resourceId: roomId }),
    );
    const { correlationId, ...body } = await readAvailability(userId);
    expect(correlationId).to.be.a("string");
    expect(body).to.deep.equal({
      ok: true,
      apiVersion: "v1",
      window: { from: "2026-03-02T21:00:00.000Z", to: "2026-03-03T21:00:00.000Z", maximumDays: 31 },
      context: { clinicId, branchId, timezone: "Europe/Istanbul" },
      resources: [
        {
          id: roomId,
          resource_type: "room",
          name: "Room 1",
          capacity: 1.5,
          timezone: "Europe/Istanbul",
          status: "active",
          metadata: { floor: 2 },
        },
      ],
      rules: [
        {
          id: ruleId,
          resource_id: roomId,
          weekday: 0,
          starts_at: "09:00:00",
          ends_at: "17:30:00",
          valid_from: "2026-01-01",
          valid_until: null,
          rule_type: "open",
          recurrence: null,
        },
      ],
      assignments: [
        {
          id: assignmentId,
          appointment_id: appointmentId,
          resource_id: roomId,
          allocation_start: "2026-03-03T09:00:00.000Z",
          allocation_end: "2026-03-03T09:30:00.000Z",
          status: "allocated",
        },
      ],
      holds: [
        {
          id: holdId,
          resource_id: roomId,
          starts_at: "2026-03-03T10:00:00.000Z",
          ends_at: "2026-03-03T10:30:00.000Z",
          expires_at: "2036-01-01T00:00:00.000Z",
          status: "active",
        },
      ],
    });
  });

  it("getAvailability omits retired resources and resources of other branches, with all rules and assignments", async () => {
    const { clinicId, branchId, otherBranchId, userId } = await openClinic(api.given);
    const [retiredResourceId, otherBranchResourceId, appointmentId] = createIds();
    await api.given(
      resourceAdded(clinicId, branchId, retiredResourceId),
      resourceAdded(clinicId, otherBranchId, otherBranchResourceId),
      ruleSet(retiredResourceId, randomUUID(), null, null),
      ruleSet(otherBranchResourceId, randomUUID(), null, null),
      appointmentRequested(clinicId, branchId, "2026-03-03T09:00:00Z", { appointmentId }),
      resourceAllocated({ appointmentId, assignmentId: randomUUID(), resourceId: retiredResourceId }),
      holdPlaced({ holdId: randomUUID(), clinicId, branchId: otherBranchId }),
      { type: "ResourceRetired", data: { resourceId: retiredResourceId } },
    );
    const { resources, rules, assignments, holds } = await readAvailability(userId);
    expect([resources, rules, assignments, holds]).to.deep.equal([[], [], [], []]);
  });

  it("getAvailability returns rules that are valid on a day of the window in the resource's time zone", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const roomId = randomUUID();
    const validityCases: [string, string | null, string | null, boolean][] = [
      ["always", null, null, true],
      ["of that day", "2026-03-03", "2026-03-03", true],
      ["until the day before", null, "2026-03-02", false],
      ["from the day after", "2026-03-04", null, false],
    ];
    const expectedIds: string[] = [];
    await api.given(resourceAdded(clinicId, branchId, roomId));
    for (const [, validFrom, validUntil, isValid] of validityCases) {
      const ruleId = randomUUID();
      await api.given(ruleSet(roomId, ruleId, validFrom, validUntil));
      if (isValid) expectedIds.push(ruleId);
    }
    const removedRuleId = randomUUID();
    await api.given(ruleSet(roomId, removedRuleId, null, null), {
      type: "AvailabilityRuleRemoved",
      data: { resourceId: roomId, ruleId: removedRuleId },
    });
    expect(listIds((await readAvailability(userId)).rules)).to.have.members(expectedIds);
  });

  it("getAvailability compares the dates of a rule with the window in the time zone of the rule's resource", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given, { timezone: "Europe/Berlin" });
    const [aucklandRoomId, berlinRoomId, ...ruleIds] = createIds();
    await api.given(
      resourceAdded(clinicId, branchId, aucklandRoomId, { timezone: "Pacific/Auckland" }),
      resourceAdded(clinicId, branchId, berlinRoomId, { timezone: "Europe/Berlin" }),
      ruleSet(aucklandRoomId, ruleIds[0]!, "2026-11-26", "2026-11-26"),
      ruleSet(aucklandRoomId, ruleIds[1]!, null, "2026-11-25"),
      ruleSet(aucklandRoomId, ruleIds[2]!, "2026-11-27", null),
      ruleSet(berlinRoomId, ruleIds[3]!, "2026-11-25", "2026-11-25"),
      ruleSet(berlinRoomId, ruleIds[4]!, "2026-11-26", null),
    );
    // November 26 in Auckland, and November 25 in Berlin.
    const { rules } = await readAvailability(userId, "from=2026-11-25T20:10:00Z&to=2026-11-25T22:00:00Z");
    expect(listIds(rules)).to.have.members([ruleIds[0], ruleIds[3]]);
  });

  it("getAvailability returns the end of a rule that ends at midnight as 24:00:00", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const [roomId, ruleId] = createIds();
    const allDay = { startsAt: "00:00:00", endsAt: "24:00:00" };
    await api.given(
      resourceAdded(clinicId, branchId, roomId),
      availabilityRuleSet({ resourceId: roomId, ruleId, ...allDay }),
    );
    const { rules } = await readAvailability(userId);
    expect(rules[0]).to.include({ id: ruleId, starts_at: "00:00:00", ends_at: "24:00:00" });
  });

  it("getAvailability returns assignments that overlap the window and are not released", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const [roomId, appointmentId, beforeId, overlappingStartId, coveringId, overlappingEndId, afterId, releasedId] =
      createIds();
    const createAllocationEvent = (id: string, start: string, end: string) =>
      resourceAllocated({
        appointmentId,
        assignmentId: id,
        resourceId: roomId,
        allocationStart: start,
        allocationEnd: end,
      });
    await api.given(
      resourceAdded(clinicId, branchId, roomId),
      appointmentRequested(clinicId, branchId, "2026-03-03T09:00:00Z", { appointmentId }),
      createAllocationEvent(beforeId, "2026-03-02T20:00:00Z", "2026-03-02T21:00:00Z"),
      createAllocationEvent(coveringId, "2026-03-02T20:30:00Z", "2026-03-03T21:30:00Z"),
      createAllocationEvent(overlappingStartId, "2026-03-02T20:00:00Z", "2026-03-02T21:00:00.001Z"),
      createAllocationEvent(overlappingEndId, "2026-03-03T20:59:59.999Z", "2026-03-03T22:00:00Z"),
      createAllocationEvent(afterId, "2026-03-03T21:00:00Z", "2026-03-03T22:00:00Z"),
      createAllocationEvent(releasedId, "2026-03-03T10:00:00Z", "2026-03-03T11:00:00Z"),
      { type: "ResourceReleased", data: { appointmentId, assignmentId: releasedId } },
    );
    expect(listIds((await readAvailability(userId)).assignments)).to.deep.equal([
      overlappingStartId,
      coveringId,
      overlappingEndId,
    ]);
  });

  it("getAvailability returns holds in the window that are neither released nor expired", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const [releasedHoldId, activeHoldId] = createIds();
    await api.given(
      holdPlaced({ holdId: activeHoldId, clinicId, branchId }),
      holdPlaced({ holdId: randomUUID(), clinicId, branchId, expiresAt: "2026-03-03T09:00:00Z" }),
      holdPlaced({
        holdId: randomUUID(),
        clinicId,
        branchId,
        endsAt: "2026-03-02T21:00:00Z",
        startsAt: "2026-03-02T20:00:00Z",
      }),
      holdPlaced({ holdId: releasedHoldId, clinicId, branchId }),
      { type: "HoldReleased", data: { holdId: releasedHoldId } },
    );
    const { holds } = await readAvailability(userId);
    expect(listIds(holds)).to.deep.equal([activeHoldId]);
    expect(holds[0].resource_id).to.equal(null);
  });
});
