import { randomUUID } from "node:crypto";
import { EventEmitter } from "node:events";
import { expect } from "chai";
import { createEventWait } from "../../../query-api/partner/event-wait.ts";
import { createEventWatch } from "../../../query-api/partner/event-watch.ts";
import { ConcurrencyLimiter } from "../../../shared/rate-limit/concurrency.ts";

describe("the limits of waiting requests", () => {
  const watch = createEventWatch(async () => ({ position: "0", lastPositions: {} }));
  after(() => watch.stop());

  it("if a process has 1,000 waiting requests, those of 200 other applications end waits of the largest applications", async () => {
    const eventWait = createEventWait(watch, new ConcurrencyLimiter("test", 1));
    const ended: string[] = [];
    const refused: string[] = [];
    const start = (applicationId: string) => {
      const ctx = { state: { applicationId }, res: new EventEmitter() };
      eventWait.wait(ctx as never, { position: 0n, epoch: "", timeoutMs: 600_000 }).then(
        () => ended.push(applicationId),
        () => refused.push(applicationId),
      );
    };
    const large = Array.from({ length: 5 }, randomUUID);
    for (const applicationId of large) for (let count = 0; count < 201; count += 1) start(applicationId);
    await Promise.resolve();
    expect([watch.getWaitCount(), ended.length]).to.deep.equal([1_000, 0]);
    for (let count = 0; count < 200; count += 1) start(randomUUID());
    start(large[0] as string);
    await new Promise(setImmediate);
    expect(watch.getWaitCount()).to.equal(1_000);
    expect(refused).to.deep.equal([...large, large[0]]);
    const endedCounts = large.map((applicationId) => ended.filter((id) => id === applicationId).length);
    expect(endedCounts).to.deep.equal([40, 40, 40, 40, 40]);
  });
});
