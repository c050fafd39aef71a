import { expect } from "chai";
import { type DueEndpoint, DueEndpoints } from "../../../../projection/webhooks/scheduling/due-endpoints.ts";
import { SlotUse } from "../../../../projection/webhooks/scheduling/slot-use.ts";
import { LANE_LIMITS, type Slot, Slots } from "../../../../projection/webhooks/scheduling/slots.ts";

const MINUTE = 60_000;

function endpoint(applicationId: string, endpointId: string, more: Partial<DueEndpoint> = {}): DueEndpoint {
  return { lane: "first", environment: "sandbox", applicationId, endpointId, ...more };
}

/** Creates the endpoints of applications with 50 endpoints each. */
function createEager(count: number, more: Partial<DueEndpoint> = {}): DueEndpoint[] {
  return Array.from({ length: count }, (_, application) =>
    Array.from({ length: 50 }, (_, n) => endpoint(`a${application}`, `a${application} e${n}`, more)),
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
  function occupyAll(endpoints: readonly DueEndpoint[], forMs = 20_000): Slot[] {
    const due = new DueEndpoints();
    due.add(endpoints);
    const occupied: Slot[] = [];
    for (const end = now + forMs; now < end; now += 25) {
      for (const { slots: count, ...one } of slots.grant(due)) {
        for (let n = 0; n < count; n += 1) occupied.push(slots.reserve(one));
      }
    }
    return occupied;
  }
  function endAll(occupied: readonly Slot[]): void {
    for (const slot of occupied) {
      slots.free(slot);
      slots.release(slot);
    }
  }

  it("attempts in the sandbox environment do not use slots of the production environment", () => {
    const alone = occupyAll(createEager(20, { environment: "production" })).length;
    slots = new Slots(() => now);
    occupyAll(createEager(40));
    expect(occupyAll(createEager(20, { environment: "production" }))).to.have.length(alone);
  });

  it("retries do not use the slots of first attempts", () => {
    const alone = occupyAll(createEager(20)).length;
    slots = new Slots(() => now);
    occupyAll(createEager(20, { lane: "retry" }));
    expect(occupyAll(createEager(20))).to.have.length(alone);
  });

  it("an application with long recent attempts gets slots after other applications, but old attempts do not count", () => {
    const due = new DueEndpoints();
    due.add([...createEager(1), endpoint("quick", "q")]);
    const firstOf = () => slots.grant(due)[0]?.applicationId;
    endAll(occupyAll(createEager(1)));
    expect(firstOf()).to.equal("quick");
    now += 60 * MINUTE;
    slots.removeUnused();
    expect(firstOf()).to.equal("a0");
  });

  it("a process that cannot record outcomes reserves at most two deliveries per slot", () => {
    let held = 0;
    for (let round = 0; round < 400; round += 1) {
      const occupied = occupyAll(createEager(1), 25);
      for (const slot of occupied) slots.free(slot);
      held += occupied.length;
    }
    expect(held).to.equal(2 * LANE_LIMITS.first.slots);
  });

  it("an endpoint whose last attempt failed gets one slot until an attempt succeeds", () => {
    const due = new DueEndpoints();
    const one = endpoint("a", "e");
    due.add([one]);
    due.setFailing(one, true);
    expect(slots.grant(due).map(({ slots: count }) => count)).to.deep.equal([1]);
    due.setFailing(one, false);
    expect(slots.grant(due).map(({ slots: count }) => count)).to.deep.equal([4]);
  });

  it("an application without recent attempts may start four attempts together", () => {
    expect(occupyAll(createEager(1), 25)).to.have.length(4);
  });

  it("an application whose recent attempts were slow may start further attempts only one by one", () => {
    const occupied = occupyAll(createEager(1));
    now += 10_000;
    endAll(occupied);
    // The application may occupy about 190 slots, and its attempts took about 20 seconds. It may therefore start about
    // ten attempts per second.
    expect(occupyAll(createEager(1), 1_000)).to.have.length.within(4, 20);
  });

  it("an application whose recent attempts were quick may get all slots up to the limit in one decision", () => {
    for (let round = 0; round < 200; round += 1) {
      const occupied = occupyAll(createEager(1), 25);
      now -= 20;
      endAll(occupied);
    }
    expect(occupyAll(createEager(1), 25)).to.have.length.above(150);
  });
});

describe("the known due endpoints of a sender", () => {
  it("an endpoint that is added to the due endpoints during a claim is not removed after the claim", () => {
    const due = new DueEndpoints();
    const one = endpoint("a", "e");
    due.add([one]);
    const versionBeforeClaim = due.version;
    due.add([one]);
    due.remove(one, versionBeforeClaim);
    expect([...due.listEntries("first", "sandbox").keys()]).to.deep.equal(["a"]);
    due.remove(one, due.version);
    expect([...due.listEntries("first", "sandbox").keys()]).to.deep.equal([]);
  });
});

describe("the use of slots", () => {
  it("the measured use of slots includes attempts in progress, and halves the time of finished attempts every 30 seconds", () => {
    const use = new SlotUse();
    use.start(0);
    use.start(1_000);
    expect(use.calculateUsedMs(4_000)).to.equal(7_000);
    expect(use.estimateAttemptMs(4_000, 10_000)).to.equal(10_000);
    expect(use.estimateAttemptMs(44_000, 10_000)).to.equal(43_500);
    use.end(0, 4_000);
    use.end(1_000, 4_000);
    expect([use.occupiedSlots, use.calculateUsedMs(4_000)]).to.deep.equal([0, 7_000]);
    expect(use.calculateUsedMs(34_000)).to.equal(3_500);
    expect(use.estimateAttemptMs(34_000, 0)).to.equal(3_500);
    expect(use.isNegligible(34_000)).to.equal(false);
    expect(use.isNegligible(60 * MINUTE)).to.equal(true);
  });
});
