import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createWaits } from "../../../query-api/partner/waits.ts";

describe("the limits of waiting requests", () => {
  const waits = createWaits({} as never, async () => ({ position: "0", lastPositions: {} }));
  after(() => waits.stop());

  it("if a process has 1,000 waiting requests, those of 200 other applications end waits of the largest applications", async () => {
    const ended: string[] = [];
    const refused: string[] = [];
    const start = (applicationId: string) =>
      waits.forEvent(applicationId, applicationId, 0n, 600_000, new AbortController().signal).then(
        () => ended.push(applicationId),
        () => refused.push(applicationId),
      );
    const large = Array.from({ length: 5 }, () => randomUUID());
    for (const applicationId of large) for (let count = 0; count < 201; count += 1) start(applicationId);
    await Promise.resolve();
    expect([waits.getWaitCount(), ended.length]).to.deep.equal([1_000, 0]);
    for (let count = 0; count < 200; count += 1) start(randomUUID());
    start(large[0] as string);
    await new Promise(setImmediate);
    expect(waits.getWaitCount()).to.equal(1_000);
    expect(refused).to.deep.equal([...large, large[0]]);
    const endedCounts = large.map((applicationId) => ended.filter((id) => id === applicationId).length);
    expect(endedCounts).to.deep.equal([40, 40, 40, 40, 40]);
  });
});
