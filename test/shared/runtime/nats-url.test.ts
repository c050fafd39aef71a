import { expect } from "chai";
import { parseNatsUrl } from "../../../shared/runtime/nats-url.ts";

describe("NATS_URL", () => {
  it("servers are separated by commas, and each has its own scheme and credentials", () => {
    const url = "nats://me:p%2Cq@a.example:4222, tls://t%40ken@b,nats://[::1]:5222/";
    expect(parseNatsUrl(url)).to.deep.equal([
      { host: "a.example:4222", requiresTls: false, login: { user: "me", password: "p,q" } },
      { host: "b", requiresTls: true, login: { token: "t@ken" } },
      { host: "[::1]:5222", requiresTls: false, login: { user: "me", password: "p,q" } },
    ]);
  });

  it("a password may contain unencoded characters", () => {
    expect(parseNatsUrl("nats://me:a,b/c@d:e?f@host:4222")?.[0]).to.deep.include({
      host: "host:4222",
      login: { user: "me", password: "a,b/c@d:e?f" },
    });
  });

  for (const url of [
    "",
    "host:4222",
    "http://host:4222",
    "nats://",
    "nats://a,b",
    "nats://a:4222,",
    "nats://a:4222?tls=true",
    "nats://me:100%@a",
    "nats://:password@a",
    "nats://@a",
  ])
    it(`the malformed value ${JSON.stringify(url)} is refused`, () => {
      expect(parseNatsUrl(url)).to.equal(undefined);
    });
});
