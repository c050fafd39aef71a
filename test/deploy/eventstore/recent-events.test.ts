import { expect } from "chai";
import { MAX_RECENT_BYTES, MAX_RECENT_EVENTS } from "../../../deploy/local/eventstore/model/limits.ts";
import { RecentEvents } from "../../../deploy/local/eventstore/store/store.ts";

const createEvent = (position: number, size = 10) => ({ position, record: Buffer.alloc(size) });
const getPositions = (events: ReturnType<RecentEvents["findAfter"]>) => events?.map(({ position }) => position);

describe("the recent events in memory", () => {
  it("a lookup returns all recent events after a log position, or undefined if one of those events was dropped", () => {
    const recentEvents = new RecentEvents(100);
    expect(getPositions(recentEvents.findAfter(100))).to.deep.equal([]);
    expect(recentEvents.findAfter(99)).to.equal(undefined);
    recentEvents.push([createEvent(110), createEvent(125)]);
    recentEvents.push([createEvent(140)]);
    expect(getPositions(recentEvents.findAfter(100))).to.deep.equal([110, 125, 140]);
    expect(getPositions(recentEvents.findAfter(110))).to.deep.equal([125, 140]);
    expect(getPositions(recentEvents.findAfter(120))).to.deep.equal([125, 140]);
    expect(getPositions(recentEvents.findAfter(140))).to.deep.equal([]);
  });

  it("the oldest events are dropped from memory if the kept events exceed the maximum number or the maximum size", () => {
    for (const [count, size] of [
      [3 * MAX_RECENT_EVENTS, 10],
      [40, MAX_RECENT_BYTES / 8],
      [5, 2 * MAX_RECENT_BYTES],
    ] as const) {
      const recentEvents = new RecentEvents(0);
      for (let n = 1; n <= count; n += 1) {
        recentEvents.push([createEvent(n, size)]);
        for (const afterPosition of [n - 1, Math.max(0, n - 3), 0]) {
          const positions = getPositions(recentEvents.findAfter(afterPosition));
          if (positions !== undefined)
            expect(positions).to.deep.equal(Array.from({ length: n - afterPosition }, (_, i) => afterPosition + i + 1));
        }
      }
      expect(recentEvents.findAfter(0)).to.equal(undefined);
      expect(getPositions(recentEvents.findAfter(count))).to.deep.equal([]);
    }
  });
});
