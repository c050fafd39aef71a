import { expect } from "chai";
import { createBatches, TooManyWaiting } from "../../../shared/rate-limit/batches.ts";
import { Windows } from "../../../shared/rate-limit/windows.ts";

const minute = { used: 1, alone: 0, endsAt: 0, until: performance.now() + 60_000 };

describe("bounds of the rate limiter", () => {
  it("remember 20,000 keys, and those last seen rather than others", () => {
    const windows = new Windows();
    windows.set("first", { ...minute });
    windows.set("kept", { ...minute });
    for (let n = 0; n < 19_999; n += 1) {
      windows.set(`flood ${n}`, { ...minute });
      if (n % 1_000 === 0) windows.set("kept", { ...minute });
    }
    expect(windows.find("first")).to.equal(undefined);
    expect(windows.find("kept")).to.not.equal(undefined);
  });

  it("let 2,000 requests of a key wait, refuse further ones at once, and hold up no other key", async () => {
    const batch = createBatches<number>();
    let finish: () => void = () => undefined;
    const blocked = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const sizes: number[] = [];
    const send = async (requests: number) => {
      sizes.push(requests);
      await blocked;
      return Array.from({ length: requests }, (_, index) => index);
    };
    const all = Array.from({ length: 2_010 }, () => batch("slow", send).catch((error: Error) => error));
    expect(await batch("other", async () => [7])).to.equal(7);
    finish();
    const outcomes = await Promise.all(all);
    expect(outcomes.filter((outcome) => outcome instanceof TooManyWaiting)).to.have.length(9);
    expect(sizes).to.deep.equal([1, 2_000]);
  });

  it("fail the requests of one batch together, and send the next batch all the same", async () => {
    const batch = createBatches<number>();
    let calls = 0;
    const send = async (requests: number) => {
      calls += 1;
      if (calls === 1) throw new Error("late");
      return Array.from({ length: requests }, () => calls);
    };
    const outcomes = await Promise.allSettled([batch("key", send), batch("key", send), batch("key", send)]);
    expect(outcomes.map(({ status }) => status)).to.deep.equal(["rejected", "fulfilled", "fulfilled"]);
  });
});
