import { expect } from "chai";
import { type DueEndpoint, DueEndpoints } from "../../../../projection/webhooks/schedule/due.ts";
import { SlotUse } from "../../../../projection/webhooks/schedule/fair-share.ts";
import { LANE_LIMITS, type Slot, Slots } from "../../../../projection/webhooks/schedule/slots.ts";

const MINUTE_MS = 60_000;

function createEndpoint(applicationId: string, endpointId: string, fields: Partial<DueEndpoint> = {}): DueEndpoint {
  return { lane: "first", environment: "sandbox", applicationId, endpointId, ...fields };
}

/** Creates the endpoints of applications with 50 endpoints each. */
function createEagerEndpoints(count: number, fields: Partial<DueEndpoint> = {}): DueEndpoint[] {
  return Array.from({ length: count }, (_, applicationIndex) =>
    Array.from({ length: 50 }, (_, n) => createEndpoint(`a${applicationIndex}`, `a${applicationIndex} e${n}`, fields)),
  ).flat();
}

describe("the slots of a sender", () => {
  let now = 0;
  let slots: Slots;
  beforeEach(() => {
    now = 0;
    slots = new Slots(() => now);
  });

  /** Requests slots every 25 ms for a period, and occupies all slots that are granted. */
  function occupyAllSlots(endpoints: readonly DueEndpoint[], durationMs = 20_000): Slot[] {
    const dueEndpoints = new DueEndpoints();
    dueEndpoints.add(endpoints);
    const occupiedSlots: Slot[] = [];
    for (const endMs = now + durationMs; now < endMs; now += 25) {
      for (const { slotCount: count, ...endpoint } of slots.grant(dueEndpoints)) {
        for (let n = 0; n < count; n += 1) occupiedSlots.push(slots.reserve(endpoint));
      }
    }
    return occupiedSlots;
  }
  function endAttempts(occupiedSlots: readonly Slot[], isSuccess = true): void {
    for (const slot of occupiedSlots) {
      slots.free(slot, isSuccess);
      slots.release(slot);
    }
  }

  it("attempts in the sandbox environment do not use slots of the production environment", () => {
    const slotCount = occupyAllSlots(createEagerEndpoints(20, { environment: "production" })).length;
    slots = new Slots(() => now);
    occupyAllSlots(createEagerEndpoints(40));
    expect(occupyAllSlots(createEagerEndpoints(20, { environment: "production" }))).to.have.length(slotCount);
  });

  it("retries do not use the slots of first attempts", () => {
    const slotCount = occupyAllSlots(createEagerEndpoints(20)).length;
    slots = new Slots(() => now);
    occupyAllSlots(createEagerEndpoints(20, { lane: "retry" }));
    expect(occupyAllSlots(createEagerEndpoints(20))).to.have.length(slotCount);
  });

  it("an application with long recent attempts gets slots after other applications, but old attempts do not count", () => {
    const dueEndpoints = new DueEndpoints();
    dueEndpoints.add([...createEagerEndpoints(1), createEndpoint("quick", "q")]);
    const findFirstApplicationId = () => slots.grant(dueEndpoints)[0]?.applicationId;
    endAttempts(occupyAllSlots(createEagerEndpoints(1)));
    expect(findFirstApplicationId()).to.equal("quick");
    now += 60 * MINUTE_MS;
    slots.removeUnused();
    expect(findFirstApplicationId()).to.equal("a0");
  });

  it("a process that cannot record outcomes reserves at most two deliveries per slot", () => {
    let heldCount = 0;
    for (let round = 0; round < 400; round += 1) {
      const occupiedSlots = occupyAllSlots(createEagerEndpoints(1), 25);
      for (const slot of occupiedSlots) slots.free(slot, true);
      heldCount += occupiedSlots.length;
    }
    expect(heldCount).to.equal(2 * LANE_LIMITS.first.slotCount);
  });

  it("an endpoint whose last attempt failed gets one slot until an attempt succeeds", () => {
    const dueEndpoints = new DueEndpoints();
    const dueEndpoint = createEndpoint("a", "e");
    dueEndpoints.add([dueEndpoint]);
    dueEndpoints.update(dueEndpoint, { isFailing: true, notBefore: 0 });
    expect(slots.grant(dueEndpoints).map(({ slotCount: count }) => count)).to.deep.equal([1]);
    dueEndpoints.update(dueEndpoint, { isFailing: false, notBefore: 0 });
    expect(slots.grant(dueEndpoints).map(({ slotCount: count }) => count)).to.deep.equal([4]);
  });

  /** Lets the attempts of a single endpoint take a time each, and returns how many of them finally run together. */
  function findConcurrency(endpoint: DueEndpoint, attemptMs: number, isSuccess = true, rounds = 100): number {
    let occupiedSlots: Slot[] = [];
    for (let round = 0; round < rounds; round += 1) {
      occupiedSlots = occupyAllSlots([endpoint], 25);
      now += attemptMs - 25;
      endAttempts(occupiedSlots, isSuccess);
    }
    return occupiedSlots.length;
  }

  it("an endpoint that answers well and quickly gets more slots, up to 64", () => {
    const endpoint = createEndpoint("a", "e");
    expect(findConcurrency(endpoint, 50)).to.equal(64);
    expect(findConcurrency(endpoint, 50, false, 5)).to.equal(4);
  });

  it("an endpoint that answers slowly gets no more slots", () => {
    expect(findConcurrency(createEndpoint("a", "e"), 1_500, true, 20)).to.be.at.most(4);
  });

  it("an endpoint gets no more slots while another application has due deliveries", () => {
    const [endpoint, other] = [createEndpoint("a", "e"), createEndpoint("b", "f")];
    for (let round = 0; round < 100; round += 1) endAttempts(occupyAllSlots([endpoint, other], 25));
    expect(occupyAllSlots([endpoint], 25)).to.have.length(4);
  });

  it("40 applications that begin while one endpoint uses all its slots get slots in the next decision", () => {
    const eager = createEndpoint("a", "e");
    findConcurrency(eager, 50);
    occupyAllSlots([eager], 25);
    const dueEndpoints = new DueEndpoints();
    dueEndpoints.add([eager, ...Array.from({ length: 40 }, (_, n) => createEndpoint(`b${n}`, `f${n}`))]);
    const grants = slots.grant(dueEndpoints).filter(({ applicationId }) => applicationId !== "a");
    expect(grants.map(({ slotCount }) => slotCount)).to.deep.equal(Array.from({ length: 40 }, () => 4));
  });

  it("an endpoint whose rate limit permits no attempt gets no slot, and other endpoints of its application get slots", () => {
    const dueEndpoints = new DueEndpoints();
    const [limitedEndpoint, otherEndpoint] = [createEndpoint("a", "limited"), createEndpoint("a", "other")];
    dueEndpoints.add([limitedEndpoint, otherEndpoint]);
    dueEndpoints.update(limitedEndpoint, { isFailing: false, notBefore: 1_000 });
    // New deliveries do not lift the limit.
    dueEndpoints.add([limitedEndpoint]);
    const listGranted = () => slots.grant(dueEndpoints).map(({ endpointId }) => endpointId);
    expect(listGranted()).to.deep.equal(["other"]);
    now = 1_000;
    expect(listGranted()).to.have.members(["limited", "other"]);
  });

  it("first attempts and retries take turns in getting the first slots", () => {
    const dueEndpoints = new DueEndpoints();
    dueEndpoints.add([createEndpoint("a", "e"), createEndpoint("a", "e", { lane: "retry" })]);
    const listLanes = () => slots.grant(dueEndpoints).map(({ lane }) => lane);
    expect([listLanes(), listLanes()]).to.deep.equal([
      ["first", "retry"],
      ["retry", "first"],
    ]);
  });

  it("an application without recent attempts may start four attempts together", () => {
    expect(occupyAllSlots(createEagerEndpoints(1), 25)).to.have.length(4);
  });

  it("an application whose recent attempts were slow may start further attempts only one by one", () => {
    const occupiedSlots = occupyAllSlots(createEagerEndpoints(1));
    now += 10_000;
    endAttempts(occupiedSlots);
    // The application may occupy about 190 slots, and its attempts took about 20 seconds. It may therefore start about
    // ten attempts per second.
    expect(occupyAllSlots(createEagerEndpoints(1), 1_000)).to.have.length.within(4, 20);
  });

  it("an application whose recent attempts were quick may get all slots up to the limit in one decision", () => {
    for (let round = 0; round < 200; round += 1) {
      const occupiedSlots = occupyAllSlots(createEagerEndpoints(1), 25);
      now -= 20;
      endAttempts(occupiedSlots);
    }
    expect(occupyAllSlots(createEagerEndpoints(1), 25)).to.have.length.above(150);
  });
});

describe("the known due endpoints of a sender", () => {
  it("an endpoint that is added to the due endpoints during a claim is not removed after the claim", () => {
    const dueEndpoints = new DueEndpoints();
    const dueEndpoint = createEndpoint("a", "e");
    dueEndpoints.add([dueEndpoint]);
    const versionBeforeClaim = dueEndpoints.version;
    dueEndpoints.add([dueEndpoint]);
    dueEndpoints.remove(dueEndpoint, versionBeforeClaim);
    expect([...dueEndpoints.listEntries("first", "sandbox").keys()]).to.deep.equal(["a"]);
    dueEndpoints.remove(dueEndpoint, dueEndpoints.version);
    expect([...dueEndpoints.listEntries("first", "sandbox").keys()]).to.deep.equal([]);
  });
});

describe("the use of slots", () => {
  it("the measured use of slots includes attempts in progress, and halves the time of finished attempts every 30 seconds", () => {
    const slotUse = new SlotUse();
    slotUse.start(0);
    slotUse.start(1_000);
    expect(slotUse.calculateUsedMs(4_000)).to.equal(7_000);
    expect(slotUse.estimateAttemptMs(4_000, 10_000)).to.equal(10_000);
    expect(slotUse.estimateAttemptMs(44_000, 10_000)).to.equal(43_500);
    slotUse.end(0, 4_000);
    slotUse.end(1_000, 4_000);
    expect([slotUse.occupiedSlots, slotUse.calculateUsedMs(4_000)]).to.deep.equal([0, 7_000]);
    expect(slotUse.calculateUsedMs(34_000)).to.equal(3_500);
    expect(slotUse.estimateAttemptMs(34_000, 0)).to.equal(3_500);
    expect(slotUse.isNegligible(34_000)).to.equal(false);
    expect(slotUse.isNegligible(60 * MINUTE_MS)).to.equal(true);
  });
});
