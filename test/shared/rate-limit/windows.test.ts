import { expect } from "chai";
import { Windows } from "../../../shared/rate-limit/windows.ts";

const endlessWindow = {
  used: 1,
  uncountedRequests: 0,
  lengthMs: 60_000,
  endsAt: 0,
  expiresAt: Number.POSITIVE_INFINITY,
};

describe("remembered windows of the rate limiter", () => {
  it("the limiter remembers the windows of the 10,000 most recent keys, and of at most 20,000 keys", () => {
    const windows = new Windows();
    windows.set("first", { ...endlessWindow });
    windows.set("kept", { ...endlessWindow });
    for (let n = 0; n < 19_999; n += 1) {
      windows.set(`flood ${n}`, { ...endlessWindow });
      if (n % 1_000 === 0) windows.set("kept", { ...endlessWindow });
    }
    expect(windows.find("first")).to.equal(undefined);
    expect(windows.find("kept")).to.not.equal(undefined);
    for (let n = 10_000; n < 19_999; n += 1) expect(windows.find(`flood ${n}`), `flood ${n}`).to.not.equal(undefined);
  });
});
