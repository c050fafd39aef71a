import { expect } from "chai";
import { createPositionWatch } from "../../../shared/postgres/read-model-position.ts";

describe("position watch", () => {
  it("concurrent waits share one read of the checkpoint, and each wait ends when the awaited position is reached", async () => {
    let readCount = 0;
    let resolveRead: (position: bigint) => void = () => undefined;
    const watch = createPositionWatch(() => {
      readCount += 1;
      return new Promise((resolve) => {
        resolveRead = resolve;
      });
    });
    const [firstWaitPromise, secondWaitPromise] = [watch.wait(1n, 10_000), watch.wait(2n, 10_000)];
    expect(readCount).to.equal(1);
    resolveRead(1n);
    expect(await firstWaitPromise).to.equal(true);
    // The second wait reads the position repeatedly.
    const readTimer = setInterval(() => resolveRead(2n), 5);
    expect(await secondWaitPromise).to.equal(true);
    clearInterval(readTimer);
    expect(readCount).to.be.at.least(2);
  });

  it("a wait returns false after the time limit", async () => {
    const watch = createPositionWatch(async () => 1n);
    const startedAtMs = performance.now();
    expect(await watch.wait(2n, 60)).to.equal(false);
    expect(performance.now() - startedAtMs).to.be.within(30, 2_000);
    expect(await watch.wait(2n, 0), "without any time").to.equal(false);
  });

  it("if reading the checkpoint fails, all current waits fail and later waits succeed", async () => {
    let isReachable = false;
    const watch = createPositionWatch(async () => {
      if (!isReachable) throw new Error("no database");
      return 5n;
    });
    const outcomes = await Promise.allSettled([watch.wait(1n, 1_000), watch.wait(9n, 1_000)]);
    expect(outcomes.map(({ status }) => status)).to.deep.equal(["rejected", "rejected"]);
    isReachable = true;
    expect(await watch.wait(5n, 1_000)).to.equal(true);
  });

  it("with notifications, waits end without a read", async () => {
    const watch = createPositionWatch(async () => {
      throw new Error("the position was read");
    });
    watch.notify(1n);
    expect(await watch.wait(1n, 1_000), "a position that was reached before").to.equal(true);
    const waitPromise = watch.wait(2n, 1_000);
    watch.notify(3n);
    expect(await waitPromise).to.equal(true);
  });

  it("if a notification is missing, the position is read", async () => {
    const watch = createPositionWatch(async () => 2n);
    watch.notify(1n);
    expect(await watch.wait(2n, 10_000)).to.equal(true);
    expect(await watch.wait(3n, 50), "a position that is not reached").to.equal(false);
  });

  it("after notifications have stopped, each wait reads the position", async () => {
    const watch = createPositionWatch(async () => 1n);
    watch.notify(2n);
    watch.notify(undefined);
    expect(await watch.wait(2n, 0)).to.equal(false);
  });
});
