import { expect } from "chai";
import {
  createDueEndpoints,
  type DueEndpoint,
} from "../../../../projection/webhooks/scheduling/due-endpoints.ts";
import { SlotUse } from "../../../../projection/webhooks/scheduling/slot-use.ts";
import {
  createSlots,
  LANES,
  type Slot,
  type Slots,
} from "../../../../projection/webhooks/scheduling/slots.ts";

const MINUTE = 60_000;

function endpoint(applicationId: string, endpointId: string, more: Partial<DueEndpoint> = {}): DueEndpoint {
  return { lane: "first", environment: "sandbox", applicationId, endpointId, ...more };
}

/** Creates applications with 50 endpoints each, which use all slots that they can get. */
function greedy(count: number, more: Partial<DueEndpoint> = {}): DueEndpoint[] {
  return Array.from({ length: count }, (_, application) =>
    Array.from({ length: 50 }, (_, n) => endpoint(`a${application}`, `a${application} e${n}`, more)),
  ).flat();
}

describe("the slots of a sender", () => {
  let now = 0;
  let slots: Slots;
  beforeEach(() => {
    now = 0;
    slots = createSlots(() => now);
  });

  /** Uses all granted slots, every 25 ms for a period. */
  function takeAll(endpoints: readonly DueEndpoint[], forMs = 20_000): Slot[] {
    const due = createDueEndpoints();
    due.add(endpoints);
    const taken: Slot[] = [];
    for (const end = now + forMs; now < end; now += 25) {
      for (const { slots: count, ...one } of slots.allot(due)) {
        for (let n = 0; n < count; n += 1) taken.push(slots.take(one));
      }
    }
    return taken;
  }
  function endAll(taken: readonly Slot[]): void {
    for (const slot of taken) {
      slots.free(slot);
      slots.letGo(slot);
    }
  }

  it("attempts in the sandbox environment use no slots of the production environment", () => {
    const alone = takeAll(greedy(20, { environment: "production" })).length;
    slots = createSlots(() => now);
    takeAll(greedy(40));
    expect(takeAll(greedy(20, { environment: "production" }))).to.have.length(alone);
  });

  it("retries use no slots of first attempts", () => {
    const alone = takeAll(greedy(20)).length;
    slots = createSlots(() => now);
    takeAll(greedy(20, { lane: "retry" }));
    expect(takeAll(greedy(20))).to.have.length(alone);
  });

  it("an application that used much slot time gets slots after other applications, until the slot time has decayed", () => {
    const due = createDueEndpoints();
    due.add([...greedy(1), endpoint("quick", "q")]);
    const firstOf = () => slots.allot(due)[0]?.applicationId;
    endAll(takeAll(greedy(1)));
    expect(firstOf()).to.equal("quick");
    now += 60 * MINUTE;
    slots.forget();
    expect(firstOf()).to.equal("a0");
  });

  it("a process reserves at most twice as many deliveries as it has slots, even if it cannot record outcomes", () => {
    let held = 0;
    for (let round = 0; round < 400; round += 1) {
      const taken = takeAll(greedy(1), 25);
      for (const slot of taken) slots.free(slot);
      held += taken.length;
    }
    expect(held).to.equal(2 * LANES.first.slots);
  });

  it("an endpoint whose last attempt failed gets one slot until an attempt succeeds", () => {
    const due = createDueEndpoints();
    const one = endpoint("a", "e");
    due.add([one]);
    due.setFailing(one, true);
    expect(slots.allot(due).map(({ slots: count }) => count)).to.deep.equal([1]);
    due.setFailing(one, false);
    expect(slots.allot(due).map(({ slots: count }) => count)).to.deep.equal([4]);
  });

  it("an application without recent attempts may start four attempts together", () => {
    expect(takeAll(greedy(1), 25)).to.have.length(4);
  });

  it("an application whose recent attempts were slow starts its next attempts one by one", () => {
    const taken = takeAll(greedy(1));
    now += 10_000;
    endAll(taken);
    // The application may occupy about 190 slots, with attempts of 20 seconds on average.
    expect(takeAll(greedy(1), 1_000)).to.have.length.within(4, 20);
  });

  it("an application whose recent attempts were quick may use all its slots in one decision", () => {
    for (let round = 0; round < 200; round += 1) {
      const taken = takeAll(greedy(1), 25);
      now -= 20;
      endAll(taken);
    }
    expect(takeAll(greedy(1), 25)).to.have.length.above(150);
  });
});

describe("the known due endpoints of a sender", () => {
  it("an endpoint that was added to the due endpoints during a claim is not removed after the claim", () => {
    const due = createDueEndpoints();
    const one = endpoint("a", "e");
    due.add([one]);
    const beforeClaim = due.additions();
    due.add([one]);
    due.remove(one, beforeClaim);
    expect([...due.of("first", "sandbox").keys()]).to.deep.equal(["a"]);
    due.remove(one, due.additions());
    expect([...due.of("first", "sandbox").keys()]).to.deep.equal([]);
  });
});

describe("the use of slots", () => {
  it("slot use counts the age of attempts in progress, and halves the time of finished attempts every 30 seconds", () => {
    const use = new SlotUse();
    use.start(0);
    use.start(1_000);
    expect(use.usedMs(4_000)).to.equal(7_000);
    expect(use.expectedMs(4_000, 10_000)).to.equal(10_000);
    expect(use.expectedMs(44_000, 10_000)).to.equal(43_500);
    use.end(0, 4_000);
    use.end(1_000, 4_000);
    expect([use.busy, use.usedMs(4_000)]).to.deep.equal([0, 7_000]);
    expect(use.usedMs(34_000)).to.equal(3_500);
    expect(use.expectedMs(34_000, 0)).to.equal(3_500);
    expect(use.isForgotten(34_000)).to.equal(false);
    expect(use.isForgotten(60 * MINUTE)).to.equal(true);
  });
});
