import { expect } from "chai";
import { MAX_RECENT_BYTES, MAX_RECENT_EVENTS } from "../../../deploy/local/eventstore/model/limits.ts";
import { RecentEvents } from "../../../deploy/local/eventstore/store/recent-events.ts";

const at = (position: number, size = 10) => ({ position, record: Buffer.alloc(size) });
const positions = (events: ReturnType<RecentEvents["after"]>) => events?.map(({ position }) => position);

describe("the recent events in memory", () => {
  it("a lookup of recent events returns all events after a position, or undefined if some of them were dropped", () => {
    const recent = new RecentEvents(100);
    expect(positions(recent.after(100))).to.deep.equal([]);
    expect(recent.after(99)).to.equal(undefined);
    recent.push([at(110), at(125)]);
    recent.push([at(140)]);
    expect(positions(recent.after(100))).to.deep.equal([110, 125, 140]);
    expect(positions(recent.after(110))).to.deep.equal([125, 140]);
    expect(positions(recent.after(120))).to.deep.equal([125, 140]);
    expect(positions(recent.after(140))).to.deep.equal([]);
  });

  it("recent events beyond the limits of number and size are dropped from the oldest on", () => {
    for (const [count, size] of [
      [3 * MAX_RECENT_EVENTS, 10],
      [40, MAX_RECENT_BYTES / 8],
      [5, 2 * MAX_RECENT_BYTES],
    ] as const) {
      const recent = new RecentEvents(0);
      for (let n = 1; n <= count; n += 1) {
        recent.push([at(n, size)]);
        for (const from of [n - 1, Math.max(0, n - 3), 0]) {
          const known = positions(recent.after(from));
          if (known !== undefined)
            expect(known).to.deep.equal(Array.from({ length: n - from }, (_, i) => from + i + 1));
        }
      }
      expect(recent.after(0)).to.equal(undefined);
      expect(positions(recent.after(count))).to.deep.equal([]);
    }
  });
});
