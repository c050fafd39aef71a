import { expect } from "chai";
import fc from "fast-check";
import { type AttemptResult, judgeAttempt } from "../../../../projection/webhooks/send/retry-policy.ts";

const NOW = Date.parse("2030-01-01T00:00:00.000Z");
const createAttemptResult = (statusCode: number, retryAfter: string | null = null): AttemptResult => ({
  statusCode,
  retryAfter,
});
const createContext = (fields = {}) => ({
  attemptCount: 1,
  scheduleSeconds: [5, 30, 300],
  now: NOW,
  random: 0.5,
  ...fields,
});
const computeWaitMs = (attemptResult: AttemptResult, fields = {}) => {
  const verdict = judgeAttempt(attemptResult, createContext(fields));
  if (verdict.status !== "pending") throw new Error(`The delivery is not retried: ${verdict.status}`);
  return verdict.nextAttemptAt - NOW;
};

describe("retry policy", () => {
  for (const status of [200, 201, 202, 204, 299])
    it(`a response with status ${status} counts as a successful delivery`, () => {
      expect(judgeAttempt(createAttemptResult(status), createContext())).to.deep.equal({ status: "delivered" });
    });

  for (const status of [100, 301, 302, 303, 307, 308, 400, 401, 404, 409, 422, 429, 500, 502, 503])
    it(`a response with status ${status} is a failure that is retried`, () => {
      expect(computeWaitMs(createAttemptResult(status))).to.equal(5_000);
    });

  it("an attempt without a response is a failure that is retried", () => {
    expect(computeWaitMs({ statusCode: null, retryAfter: null })).to.equal(5_000);
  });

  it("a delivery is retried according to the schedule, and fails after the last retry", () => {
    const waitTimesMs = [1, 2, 3].map((attemptCount) => computeWaitMs(createAttemptResult(500), { attemptCount }));
    expect(waitTimesMs).to.deep.equal([5_000, 30_000, 300_000]);
    expect(judgeAttempt(createAttemptResult(500), createContext({ attemptCount: 4 }))).to.deep.equal({
      status: "failed",
      isGone: false,
    });
    expect(judgeAttempt(createAttemptResult(500), createContext({ scheduleSeconds: [] }))).to.deep.equal({
      status: "failed",
      isGone: false,
    });
  });

  it("the wait before each retry varies randomly by up to 20 %", () => {
    expect(computeWaitMs(createAttemptResult(500), { random: 0 })).to.equal(4_000);
    expect(computeWaitMs(createAttemptResult(500), { random: 0.999999 })).to.be.within(5_999, 6_000);
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        fc.integer({ min: 1, max: 3 }),
        (random, attemptCount) => {
          const delaySeconds = createContext().scheduleSeconds[attemptCount - 1]!;
          expect(computeWaitMs(createAttemptResult(500), { random, attemptCount })).to.be.within(
            delaySeconds * 800,
            delaySeconds * 1200 + 1,
          );
        },
      ),
    );
  });

  it("a response with status 410 ends the retries of a delivery", () => {
    expect(judgeAttempt(createAttemptResult(410), createContext())).to.deep.equal({ status: "failed", isGone: true });
  });

  describe("Retry-After", () => {
    const cases: [string, number, string, number][] = [
      ...[302, 400, 408, 429, 500, 502, 503].map((status): [string, number, string, number] => [
        `with status ${status} lengthens the wait`,
        status,
        "120",
        120_000,
      ]),
      ["that is a date lengthens the wait", 503, "Tue, 01 Jan 2030 00:02:00 GMT", 120_000],
      ["in the form of RFC 850 lengthens the wait", 503, "Tuesday, 01-Jan-30 00:02:00 GMT", 120_000],
      ["in the form of asctime lengthens the wait", 503, "Tue Jan  1 00:02:00 2030", 120_000],
      ["with a date in another form is ignored", 503, "2030-01-01T00:02:00Z", 5_000],
      ["with a date in another zone is ignored", 503, "Tue, 01 Jan 2030 00:02:00 PST", 5_000],
      ["that is short does not shorten the wait", 429, "1", 5_000],
      ["of more than a day counts as a day", 429, "999999999", 86_400_000],
      ["with a date more than a day ahead counts as a day", 429, "Fri, 01 Jan 2100 00:00:00 GMT", 86_400_000],
      ["with a date in the past is ignored", 503, "Tue, 01 Jan 2019 00:02:00 GMT", 5_000],
      ["that is not a date is ignored", 503, "soon", 5_000],
      ["that is negative is ignored", 503, "-5", 5_000],
    ];
    for (const [label, status, retryAfter, waitMs] of cases)
      it(`a Retry-After header ${label}`, () =>
        expect(computeWaitMs(createAttemptResult(status, retryAfter))).to.equal(waitMs));

    it("a Retry-After header in the form of asctime is in GMT, also if the machine has another time zone", () => {
      const zone = process.env.TZ;
      process.env.TZ = "America/St_Johns";
      try {
        expect(computeWaitMs(createAttemptResult(503, "Tue Jan  1 00:02:00 2030"))).to.equal(120_000);
      } finally {
        if (zone === undefined) delete process.env.TZ;
        else process.env.TZ = zone;
      }
    });

    it("a Retry-After header in the response to the last attempt does not cause another attempt", () => {
      expect(judgeAttempt(createAttemptResult(429, "120"), createContext({ attemptCount: 4 }))).to.deep.include({
        status: "failed",
      });
    });
  });
});
