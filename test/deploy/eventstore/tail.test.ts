import { expect } from "chai";
import { MAX_TAIL_BYTES, MAX_TAIL_EVENTS } from "../../../deploy/local/eventstore/model/limits.ts";
import { Tail } from "../../../deploy/local/eventstore/store/tail.ts";

const at = (position: number, size = 10) => ({ position, record: Buffer.alloc(size) });
const positions = (events: ReturnType<Tail["after"]>) => events?.map(({ position }) => position);

describe("the tail of the embedded log", () => {
  it("gives what came after a position, and says where it does not know", () => {
    const tail = new Tail(100);
    expect(positions(tail.after(100))).to.deep.equal([]);
    expect(tail.after(99)).to.equal(undefined);
    tail.push([at(110), at(125)]);
    tail.push([at(140)]);
    expect(positions(tail.after(100))).to.deep.equal([110, 125, 140]);
    expect(positions(tail.after(110))).to.deep.equal([125, 140]);
    expect(positions(tail.after(120))).to.deep.equal([125, 140]);
    expect(positions(tail.after(140))).to.deep.equal([]);
  });

  it("forgets the oldest past its bounds and never leaves a gap", () => {
    for (const [count, size] of [
      [3 * MAX_TAIL_EVENTS, 10],
      [40, MAX_TAIL_BYTES / 8],
      [5, 2 * MAX_TAIL_BYTES],
    ] as const) {
      const tail = new Tail(0);
      for (let n = 1; n <= count; n += 1) {
        tail.push([at(n, size)]);
        for (const from of [n - 1, Math.max(0, n - 3), 0]) {
          const known = positions(tail.after(from));
          if (known !== undefined)
            expect(known).to.deep.equal(Array.from({ length: n - from }, (_, i) => from + i + 1));
        }
      }
      expect(tail.after(0)).to.equal(undefined);
      expect(positions(tail.after(count))).to.deep.equal([]);
    }
  });
});
