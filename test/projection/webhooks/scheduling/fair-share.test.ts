import { expect } from "chai";
import fc from "fast-check";
import {
  grantSlots,
  type SlotPool,
  type WaitingApplication,
  type WaitingEndpoint,
} from "../../../../projection/webhooks/scheduling/fair-share.ts";

interface Endpoint extends WaitingEndpoint {
  name: string;
}

const SLOTS = 960;

function endpoint(name: string, fields: Partial<WaitingEndpoint> = {}): Endpoint {
  return { name, occupiedSlots: 0, maxSlots: 4, usedMs: 0, ...fields };
}

function application(
  endpoints: Endpoint[],
  fields: Partial<WaitingApplication<Endpoint>> = {},
): WaitingApplication<Endpoint> {
  const occupiedSlots = endpoints.reduce((sum, one) => sum + one.occupiedSlots, 0);
  return { occupiedSlots, usedMs: 0, maxNewSlots: SLOTS, listEndpoints: () => endpoints, ...fields };
}

const manyEndpoints = (name: string, count: number) =>
  Array.from({ length: count }, (_, n) => endpoint(`${name} ${n}`));

function grant(pool: Partial<SlotPool>, ...applications: WaitingApplication<Endpoint>[]): Record<string, number> {
  const grants = grantSlots(
    { slots: SLOTS, occupiedSlots: 0, maxNewSlots: Number.POSITIVE_INFINITY, ...pool },
    applications,
  );
  return Object.fromEntries([...grants].map(([{ name }, slots]) => [name, slots]));
}
const sum = (slots: Record<string, number>, prefix = "") =>
  Object.entries(slots).reduce((total, [name, count]) => total + (name.startsWith(prefix) ? count : 0), 0);

describe("the fair share of slots", () => {
  it("a single endpoint with due deliveries gets the maximum number of slots per endpoint", () => {
    expect(grant({}, application([endpoint("a")]))).to.deep.equal({ a: 4 });
  });

  it("a single application with due deliveries gets nearly a fifth of all slots", () => {
    const slots = sum(grant({}, application(manyEndpoints("a", 1_000))));
    expect(slots).to.be.within(188, SLOTS / 5);
  });

  it("if 20 applications have reached their slot limits, a new application gets about the same number of slots", () => {
    const greedyApplications = Array.from({ length: 20 }, (_, n) => application(manyEndpoints(`greedy${n} `, 50)));
    const occupied = sum(grant({}, ...greedyApplications));
    const slots = sum(grant({ occupiedSlots: occupied }, application(manyEndpoints("next", 50))));
    expect(slots).to.be.at.least(occupied / 20 - 8);
  });

  it("the last free slot goes to the application whose recent attempts took the least time", () => {
    const slowApplication = application([endpoint("slow")], { usedMs: 9_000 });
    const quickApplication = application([endpoint("quick")], { usedMs: 40 });
    expect(grant({ occupiedSlots: SLOTS - 1 }, slowApplication, quickApplication)).to.deep.equal({ quick: 1 });
  });

  it("two applications whose recent attempts took equal time get the same number of slots", () => {
    const slots = grant({ maxNewSlots: 10 }, application(manyEndpoints("a", 50)), application(manyEndpoints("b", 50)));
    expect([sum(slots, "a"), sum(slots, "b")]).to.deep.equal([5, 5]);
  });

  it("an application at the slot limit gets no slot, and the endpoints of the application are not listed", () => {
    const fullApplication: WaitingApplication<Endpoint> = {
      occupiedSlots: 200,
      usedMs: 0,
      maxNewSlots: SLOTS,
      listEndpoints: () => expect.fail("the endpoints are listed"),
    };
    expect(grant({ occupiedSlots: 200 }, fullApplication, application([endpoint("b")]))).to.deep.equal({ b: 4 });
  });

  it("an application that may start only two more attempts gets two slots", () => {
    expect(sum(grant({}, application(manyEndpoints("a", 50), { maxNewSlots: 2 })))).to.equal(2);
  });

  it("an application's slot goes to the endpoint whose recent attempts took the least time", () => {
    const endpoints = [endpoint("slow", { usedMs: 9_000 }), endpoint("quick", { usedMs: 3 })];
    expect(grant({ maxNewSlots: 1 }, application(endpoints))).to.deep.equal({ quick: 1 });
  });

  it("a failing endpoint with an attempt in progress gets no slot", () => {
    expect(grant({}, application([endpoint("failing", { occupiedSlots: 1, maxSlots: 1 })]))).to.deep.equal({});
  });

  const endpoints = fc.array(
    fc.record({
      occupiedSlots: fc.nat(4),
      maxSlots: fc.integer({ min: 1, max: 4 }),
      usedMs: fc.nat(100_000),
    }),
    { maxLength: 60 },
  );
  const pools = fc.record({
    slots: fc.integer({ min: 1, max: 1_000 }),
    applications: fc.array(fc.record({ usedMs: fc.nat(1_000_000), endpoints }), { maxLength: 30 }),
    maxNewSlots: fc.nat(300),
  });

  it("granted slots never exceed the limits per endpoint, per application, per pool and per decision", () => {
    fc.assert(
      fc.property(pools, ({ slots, applications, maxNewSlots }) => {
        const waitingApplications = applications.map(({ usedMs, endpoints }, a) =>
          application(
            endpoints.map((one, e) => ({ ...one, name: `${a}/${e}` })),
            { usedMs },
          ),
        );
        const occupiedSlots = waitingApplications.reduce((total, one) => total + one.occupiedSlots, 0);
        const grants = grantSlots({ slots, occupiedSlots, maxNewSlots }, waitingApplications);
        const total = [...grants.values()].reduce((all, count) => all + count, 0);
        expect(total).to.be.at.most(Math.max(0, Math.min(maxNewSlots, slots - occupiedSlots)));
        for (const [one, count] of grants) expect(one.occupiedSlots + count).to.be.at.most(one.maxSlots);
        for (const { occupiedSlots: occupied, listEndpoints } of waitingApplications) {
          const count = listEndpoints().reduce((all, one) => all + (grants.get(one) ?? 0), 0);
          if (count > 0) expect(occupied + count).to.be.at.most(Math.max(1, Math.floor((slots - occupiedSlots) / 4)));
        }
      }),
    );
  });

  it("a single application with due deliveries gets all slots that the limits allow", () => {
    fc.assert(
      fc.property(fc.integer({ min: 4, max: 1_000 }), fc.integer({ min: 1, max: 300 }), (slots, count) => {
        const partner = application(manyEndpoints("a", count));
        const firstGrants = grant({ slots }, partner);
        const occupied = sum(firstGrants);
        const endpoints = partner.listEndpoints().map((one) => ({ ...one, occupiedSlots: firstGrants[one.name] ?? 0 }));
        expect(grant({ slots, occupiedSlots: occupied }, application(endpoints))).to.deep.equal({});
        // Either all endpoints have reached their limit, or the application has used nearly all of its share.
        const share = Math.floor((slots - occupied) / 4);
        expect(occupied === 4 * count || share - occupied < 16).to.equal(true);
      }),
    );
  });

  /**
   * Random steps of a simulation. In each step, an application ends some attempts and then starts as many as possible.
   */
  const steps = fc.array(fc.record({ application: fc.nat(99), ends: fc.integer({ min: 0, max: 30 }) }), {
    minLength: 1,
    maxLength: 200,
  });

  it("a new application gets a slot even if up to 100 applications have reached their slot limits", () => {
    fc.assert(
      fc.property(steps, (chosen) => {
        const busy = new Map<number, number>();
        const total = () => [...busy.values()].reduce((all, count) => all + count, 0);
        for (const { application: id, ends } of chosen) {
          busy.set(id, Math.max(0, (busy.get(id) ?? 0) - ends));
          const greedy = application(manyEndpoints(`${id}`, 300), { occupiedSlots: busy.get(id) ?? 0 });
          busy.set(id, greedy.occupiedSlots + sum(grant({ occupiedSlots: total() }, greedy)));
          const newcomer = application([endpoint("newcomer")], { usedMs: 0 });
          expect(grant({ occupiedSlots: total() }, greedy, newcomer).newcomer).to.be.at.least(1);
        }
      }),
      { numRuns: 30 },
    );
  });
});
