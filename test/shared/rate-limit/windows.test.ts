import { expect } from "chai";
import { Windows } from "../../../shared/rate-limit/windows.ts";

const endless = { used: 1, uncounted: 0, length: 60_000, endsAt: 0, until: Number.POSITIVE_INFINITY };

describe("remembered windows of the rate limiter", () => {
  it("the limiter remembers the windows of the 20,000 most recent keys", () => {
    const windows = new Windows();
    windows.set("first", { ...endless });
    windows.set("kept", { ...endless });
    for (let n = 0; n < 19_999; n += 1) {
      windows.set(`flood ${n}`, { ...endless });
      if (n % 1_000 === 0) windows.set("kept", { ...endless });
    }
    expect(windows.find("first")).to.equal(undefined);
    expect(windows.find("kept")).to.not.equal(undefined);
  });
});
