import { expect } from "chai";
import fc from "fast-check";
import { type DueEndpoint, MAX_CLAIMED, Schedule } from "../../../../projection/webhooks/schedule/schedule.ts";

const MAX_ATTEMPTS = MAX_CLAIMED / 2;

const createEndpoint = (applicationId: string, name = "e"): DueEndpoint => ({
  environment: "sandbox",
  applicationId,
  endpointId: `${applicationId} ${name}`,
});

const createEndpoints = (applicationId: string, count: number) =>
  Array.from({ length: count }, (_, n) => createEndpoint(applicationId, `e${n}`));

describe("the schedule of a sender", () => {
  let now = 0;
  let schedule: Schedule;
  let endings: { endpoint: DueEndpoint; end(isSuccess: boolean): () => void }[];

  beforeEach(() => {
    now = 0;
    endings = [];
    schedule = new Schedule(() => now);
  });

  const addDue = (...endpoints: DueEndpoint[]) => {
    for (const endpoint of endpoints) schedule.add(endpoint);
  };
  /** Starts all attempts of one decision, as if enough deliveries were due. @returns the number for each application */
  const startGranted = (): Map<string, number> => {
    const counts = new Map<string, number>();
    for (const { count, ...endpoint } of schedule.grant()) {
      for (let n = 0; n < count; n += 1) endings.push({ endpoint, end: schedule.start(endpoint) });
      counts.set(endpoint.applicationId, (counts.get(endpoint.applicationId) ?? 0) + count);
    }
    return counts;
  };
  const startAll = () => {
    while (startGranted().size > 0);
  };
  const endAll = (isSuccess: boolean) => {
    for (const { end } of endings.splice(0)) end(isSuccess)();
  };
  const countInProgress = (applicationId: string) =>
    endings.filter(({ endpoint }) => endpoint.applicationId === applicationId).length;

  /** Simulates rounds of attempts that take `attemptMs` each. @returns the final number of concurrent attempts */
  const findConcurrency = (endpoint: DueEndpoint, attemptMs: number, isSuccess = true, rounds = 100): number => {
    for (let round = 0; round < rounds; round += 1) {
      addDue(endpoint);
      startAll();
      now += attemptMs;
      if (round < rounds - 1) endAll(isSuccess);
    }
    return countInProgress(endpoint.applicationId);
  };

  it("an endpoint that answers well and quickly has up to 64 attempts at a time, and a slow or failing one four", () => {
    expect(findConcurrency(createEndpoint("quick"), 50)).to.equal(64);
    endAll(true);
    expect(findConcurrency(createEndpoint("slow"), 1_500)).to.equal(4);
    endAll(true);
    expect(findConcurrency(createEndpoint("refusing"), 50, false)).to.equal(4);
  });

  it("an endpoint whose last attempt failed has one attempt at a time", () => {
    const endpoint = createEndpoint("a");
    addDue(endpoint);
    schedule.recordClaim(endpoint, { isFailing: true, hasMore: true, pauseMs: 0 });
    startAll();
    expect(countInProgress("a")).to.equal(1);
  });

  it("an endpoint with a rate limit waits until the limit permits the next attempt", () => {
    const endpoint = createEndpoint("a");
    addDue(endpoint);
    schedule.recordClaim(endpoint, { isFailing: false, hasMore: true, pauseMs: 100 });
    expect(schedule.grant()).to.deep.equal([]);
    now = 100;
    expect(schedule.grant()).to.have.length(1);
  });

  it("an endpoint that becomes due while a claim finds nothing stays due", () => {
    const endpoint = createEndpoint("a");
    addDue(endpoint);
    schedule.grant();
    addDue(endpoint);
    schedule.recordClaim(endpoint, { isFailing: false, hasMore: false, pauseMs: 0 });
    expect(schedule.listDueIds()).to.deep.equal([endpoint.endpointId]);
    schedule.grant();
    schedule.recordClaim(endpoint, { isFailing: false, hasMore: false, pauseMs: 0 });
    expect(schedule.hasDue).to.equal(false);
  });

  it("applications get attempts in one decision, although 20 others whose receivers hang use all they may", () => {
    for (let n = 0; n < 20; n += 1) addDue(...createEndpoints(`hanging ${n}`, 50));
    startAll();
    const freeCount = MAX_ATTEMPTS - endings.length;
    expect(freeCount).to.be.at.least(10);
    addDue(...Array.from({ length: 40 }, (_, n) => createEndpoint(`new ${n}`)));
    const served = [...startGranted().keys()].filter((id) => id.startsWith("new"));
    expect(served).to.have.length(Math.min(40, freeCount));
  });

  it("40 applications get attempts in one decision next to a busy endpoint", () => {
    findConcurrency(createEndpoint("busy"), 50);
    addDue(createEndpoint("busy"), ...Array.from({ length: 40 }, (_, n) => createEndpoint(`new ${n}`)));
    const counts = startGranted();
    expect([...counts.keys()].filter((id) => id.startsWith("new"))).to.have.length(40);
  });

  it("a single application stops at a fifth of the capacity, and leaves some of it for its other endpoints", () => {
    addDue(...createEndpoints("a", 100));
    startAll();
    expect(countInProgress("a")).to.be.within(MAX_ATTEMPTS / 5 - 5, MAX_ATTEMPTS / 5 + 1);
    addDue(createEndpoint("a", "later"));
    expect(startGranted().get("a")).to.equal(1);
  });

  it("a process that cannot record outcomes claims at most two deliveries for each possible attempt", () => {
    addDue(...createEndpoints("a", 100));
    let claimedCount = 0;
    for (let round = 0; round < 400; round += 1) {
      startAll();
      claimedCount += endings.length;
      for (const { end } of endings.splice(0)) end(true);
    }
    expect(claimedCount).to.equal(MAX_CLAIMED);
  });

  it("endpoints that have nothing to do are forgotten", () => {
    addDue(createEndpoint("a"));
    schedule.grant();
    schedule.recordClaim(createEndpoint("a"), { isFailing: true, hasMore: false, pauseMs: 0 });
    schedule.removeUnused();
    addDue(createEndpoint("a"));
    startAll();
    expect(countInProgress("a")).to.equal(4);
  });

  it("in any sequence of steps, no limit is exceeded, and every application without attempts gets a turn", () => {
    const step = fc.record({
      applications: fc.array(fc.nat(30)),
      ended: fc.nat(200),
      isSuccess: fc.boolean(),
      ms: fc.nat(2_000),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        now = 0;
        endings = [];
        schedule = new Schedule(() => now);
        for (const { applications, ended, isSuccess, ms } of steps) {
          for (const n of applications) addDue(...createEndpoints(`a${n}`, 1 + (n % 5)));
          const freeCount = MAX_ATTEMPTS - endings.length;
          const waiting = [...new Set(applications.map((n) => `a${n}`))].filter((id) => countInProgress(id) === 0);
          const counts = startGranted();
          expect(endings.length).to.be.at.most(MAX_ATTEMPTS);
          if (waiting.length <= Math.min(freeCount, 150)) expect([...counts.keys()]).to.include.members(waiting);
          now += ms;
          for (const { end } of endings.splice(0, ended)) end(isSuccess)();
        }
      }),
      { numRuns: 200 },
    );
  });
});
