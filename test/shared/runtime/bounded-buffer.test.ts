import { expect } from "chai";
import { BoundedBuffer } from "../../../shared/runtime/bounded-buffer.ts";

describe("bounded buffer", () => {
  /** Starts to take items. `takeState.items` is undefined until the buffer returns them. */
  function startTake(buffer: BoundedBuffer<number>, maxItems: number) {
    const takeState: { items?: number[] } = {};
    const donePromise = buffer.take(maxItems).then((items) => {
      takeState.items = items;
    });
    return { takeState, donePromise };
  }

  const waitForTurn = () => new Promise((resolve) => setImmediate(resolve));

  it("`take` waits for the minimum number of items", async () => {
    const buffer = new BoundedBuffer<number>(4);
    buffer.setMinimum(2);
    const { takeState, donePromise } = startTake(buffer, 3);
    buffer.push(1);
    await waitForTurn();
    expect(takeState.items).to.equal(undefined);
    buffer.push(2);
    await donePromise;
    expect(takeState.items).to.deep.equal([1, 2]);
  });

  it("lowering the minimum releases the items that are already there", async () => {
    const buffer = new BoundedBuffer<number>(4);
    buffer.setMinimum(3);
    buffer.push(1);
    const { takeState, donePromise } = startTake(buffer, 3);
    await waitForTurn();
    expect(takeState.items).to.equal(undefined);
    buffer.setMinimum(1);
    await donePromise;
    expect(takeState.items).to.deep.equal([1]);
  });

  it("all producers that wait for space continue", async () => {
    const buffer = new BoundedBuffer<number>(1);
    const pushes = [1, 2, 3].map((item) => buffer.push(item));
    expect([await buffer.take(1), await buffer.take(1), await buffer.take(1)]).to.deep.equal([[1], [2], [3]]);
    await Promise.all(pushes);
  });

  it("closing releases fewer items than the minimum, and then an empty array", async () => {
    const buffer = new BoundedBuffer<number>(4);
    buffer.setMinimum(3);
    const { takeState, donePromise } = startTake(buffer, 3);
    buffer.push(1);
    buffer.close();
    await donePromise;
    expect(takeState.items).to.deep.equal([1]);
    expect(await buffer.take(3)).to.deep.equal([]);
  });
});
