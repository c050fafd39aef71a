import { expect } from "chai";
import { createBatcher, QueueFullError } from "../../../shared/runtime/batches.ts";

describe("batches", () => {
  it("items that arrive while a batch of the same key is sent form the next batch, and other keys are not delayed", async () => {
    const add = createBatcher<number, number>({ maxWaitingItems: 20, maxBatchSize: 15 });
    let finish: () => void = () => undefined;
    const firstBatchPromise = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const batchSizes: number[] = [];
    const send = async (items: number[]) => {
      batchSizes.push(items.length);
      await firstBatchPromise;
      return items.map((item) => item * 2);
    };
    const outcomePromises = Array.from({ length: 25 }, (_, n) => add("slow", n, send).catch((error: Error) => error));
    expect(await add("other", 3, async (items) => items)).to.equal(3);
    finish();
    const outcomes = await Promise.all(outcomePromises);
    expect(batchSizes).to.deep.equal([1, 15, 5]);
    expect(outcomes.slice(0, 21)).to.deep.equal(Array.from({ length: 21 }, (_, n) => n * 2));
    for (const refusedOutcome of outcomes.slice(21)) expect(refusedOutcome).to.be.instanceOf(QueueFullError);
  });

  it("if a batch fails, all items of the batch fail, and the next batch is still sent", async () => {
    const add = createBatcher<string, number>({ maxWaitingItems: 20, maxBatchSize: 20 });
    let callCount = 0;
    const send = async (items: string[]) => {
      callCount += 1;
      if (callCount === 1) throw new Error("late");
      return items.map(() => callCount);
    };
    const outcomes = await Promise.allSettled(["a", "b", "c"].map((item) => add("key", item, send)));
    expect(outcomes.map(({ status }) => status)).to.deep.equal(["rejected", "fulfilled", "fulfilled"]);
  });
});
