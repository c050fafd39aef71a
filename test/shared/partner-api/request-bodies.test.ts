import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { appointmentRequest, customHeaderName, customHeaderValue } from "../../../shared/partner-api/request-bodies.ts";

describe("the start of a requested appointment", () => {
  it("a start after which an appointment could end in the year 10000 is refused", () => {
    const request = { branchId: randomUUID(), animalId: randomUUID() };
    const accepts = (scheduledAt: string) => appointmentRequest.safeParse({ ...request, scheduledAt }).success;
    expect(accepts("9999-12-30T23:59:59.999Z")).to.equal(true);
    expect(accepts("9999-12-31T00:00:00Z")).to.equal(false);
    expect(accepts("9999-12-31T01:00:00+02:00")).to.equal(true);
  });
});

describe("custom headers", () => {
  for (const name of ["Authorization", "X-Api-Key", "Cookie", "x-tenant_1", "Contents"])
    it(`the header name ${name} is accepted`, () => {
      expect(customHeaderName.safeParse(name).success).to.equal(true);
    });

  const reservedNames = [
    ...["Host", "connection", "Transfer-Encoding", "Content-Type", "CONTENT-LENGTH", "Proxy-Authorization", "TE"],
    ...["User-Agent", "Accept-Encoding", "traceparent", "webhook-signature", "Webhook-Anything", "X-Forwarded-For"],
    ...["X-SERVICE-Signature", "x-other-timestamp", "X-A-B-Delivery-ID", "Via"],
  ];
  for (const name of [...reservedNames, "", "X Key", "X-Key:", "X-Kéy", "a".repeat(65), "X\r\nY"])
    it(`the header name ${JSON.stringify(name)} is refused`, () => {
      expect(customHeaderName.safeParse(name).success).to.equal(false);
    });

  it("a value consists of printable ASCII characters without outer spaces", () => {
    for (const value of ["a", "Bearer abc.def", "~".repeat(1_024)])
      expect(customHeaderValue.safeParse(value).success, value).to.equal(true);
    for (const value of ["", " a", "a ", "a\r\nX-Other: b", "a\tb", "ü", "~".repeat(1_025)])
      expect(customHeaderValue.safeParse(value).success, value).to.equal(false);
  });
});
