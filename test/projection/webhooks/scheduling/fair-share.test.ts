import { expect } from "chai";
import fc from "fast-check";
import {
  allot,
  type WaitingApplication,
  type WaitingEndpoint,
} from "../../../../projection/webhooks/scheduling/fair-share.ts";

interface Endpoint extends WaitingEndpoint {
  name: string;
}

const SLOTS = 960;

function endpoint(name: string, more: Partial<WaitingEndpoint> = {}): Endpoint {
  return { name, busy: 0, most: 4, usedMs: 0, ...more };
}

function application(
  endpoints: Endpoint[],
  more: Partial<WaitingApplication<Endpoint>> = {},
): WaitingApplication<Endpoint> {
  const busy = endpoints.reduce((sum, one) => sum + one.busy, 0);
  return { busy, usedMs: 0, atOnce: SLOTS, endpoints: () => endpoints, ...more };
}

const manyEndpoints = (name: string, count: number) =>
  Array.from({ length: count }, (_, n) => endpoint(`${name} ${n}`));

function given(
  pool: { slots?: number; busy?: number; atMost?: number },
  ...applications: WaitingApplication<Endpoint>[]
): Record<string, number> {
  const result = allot({ slots: SLOTS, busy: 0, atMost: Number.POSITIVE_INFINITY, ...pool }, applications);
  return Object.fromEntries([...result].map(([{ name }, slots]) => [name, slots]));
}
const sum = (slots: Record<string, number>, of = "") =>
  Object.entries(slots).reduce((total, [name, count]) => total + (name.startsWith(of) ? count : 0), 0);

describe("the fair share of slots", () => {
  it("a single endpoint gets as many slots as one endpoint may occupy", () => {
    expect(given({}, application([endpoint("a")]))).to.deep.equal({ a: 4 });
  });

  it("the only application with due deliveries gets nearly a fifth of all slots", () => {
    const slots = sum(given({}, application(manyEndpoints("a", 1_000))));
    expect(slots).to.be.within(188, SLOTS / 5);
  });

  it("a new application gets about as many slots as each of 20 applications that occupy all slots they can get", () => {
    const greedy = Array.from({ length: 20 }, (_, n) => application(manyEndpoints(`greedy${n} `, 50)));
    const taken = sum(given({}, ...greedy));
    const slots = sum(given({ busy: taken }, application(manyEndpoints("next", 50))));
    expect(slots).to.be.at.least(taken / 20 - 8);
  });

  it("the last free slot goes to the application with the least slot time", () => {
    const slow = application([endpoint("slow")], { usedMs: 9_000 });
    const quick = application([endpoint("quick")], { usedMs: 40 });
    expect(given({ busy: SLOTS - 1 }, slow, quick)).to.deep.equal({ quick: 1 });
  });

  it("two applications with equal slot time get equally many slots", () => {
    const slots = given(
      { atMost: 10 },
      application(manyEndpoints("a", 50)),
      application(manyEndpoints("b", 50)),
    );
    expect([sum(slots, "a"), sum(slots, "b")]).to.deep.equal([5, 5]);
  });

  it("an application at its slot limit gets no slot, and its endpoints are not listed", () => {
    const full: WaitingApplication<Endpoint> = {
      busy: 200,
      usedMs: 0,
      atOnce: SLOTS,
      endpoints: () => expect.fail("the endpoints are listed"),
    };
    expect(given({ busy: 200 }, full, application([endpoint("b")]))).to.deep.equal({ b: 4 });
  });

  it("an application whose pace allows two more attempts gets two slots", () => {
    expect(sum(given({}, application(manyEndpoints("a", 50), { atOnce: 2 })))).to.equal(2);
  });

  it("the slot of an application goes to its endpoint with the least slot time", () => {
    const endpoints = [endpoint("slow", { usedMs: 9_000 }), endpoint("quick", { usedMs: 3 })];
    expect(given({ atMost: 1 }, application(endpoints))).to.deep.equal({ quick: 1 });
  });

  it("a failing endpoint with an attempt in progress gets no slot", () => {
    expect(given({}, application([endpoint("failing", { busy: 1, most: 1 })]))).to.deep.equal({});
  });

  const endpoints = fc.array(
    fc.record({ busy: fc.nat(4), most: fc.integer({ min: 1, max: 4 }), usedMs: fc.nat(100_000) }),
    { maxLength: 60 },
  );
  const pools = fc.record({
    slots: fc.integer({ min: 1, max: 1_000 }),
    applications: fc.array(fc.record({ usedMs: fc.nat(1_000_000), endpoints }), { maxLength: 30 }),
    atMost: fc.nat(300),
  });

  it("a decision about slots exceeds no limit of an endpoint, an application, the pool or the decision", () => {
    fc.assert(
      fc.property(pools, ({ slots, applications, atMost }) => {
        const waiting = applications.map(({ usedMs, endpoints }, a) =>
          application(
            endpoints.map((one, e) => ({ ...one, name: `${a}/${e}` })),
            { usedMs },
          ),
        );
        const busy = waiting.reduce((total, one) => total + one.busy, 0);
        const result = allot({ slots, busy, atMost }, waiting);
        const total = [...result.values()].reduce((all, count) => all + count, 0);
        expect(total).to.be.at.most(Math.max(0, Math.min(atMost, slots - busy)));
        for (const [one, count] of result) expect(one.busy + count).to.be.at.most(one.most);
        for (const { busy: held, endpoints } of waiting) {
          const count = endpoints().reduce((all, one) => all + (result.get(one) ?? 0), 0);
          if (count > 0) expect(held + count).to.be.at.most(Math.max(1, Math.floor((slots - busy) / 4)));
        }
      }),
    );
  });

  it("the only application with due deliveries gets all slots that its limits allow", () => {
    fc.assert(
      fc.property(fc.integer({ min: 4, max: 1_000 }), fc.integer({ min: 1, max: 300 }), (slots, count) => {
        const alone = application(manyEndpoints("a", count));
        const first = given({ slots }, alone);
        const taken = sum(first);
        const again = alone.endpoints().map((one) => ({ ...one, busy: first[one.name] ?? 0 }));
        expect(given({ slots, busy: taken }, application(again))).to.deep.equal({});
        // Either all endpoints are at their limit, or the application has used its share except for a small reserve.
        const share = Math.floor((slots - taken) / 4);
        expect(taken === 4 * count || share - taken < 16).to.equal(true);
      }),
    );
  });

  /** Steps of a model. In each step, an application ends some attempts and then starts as many as possible. */
  const steps = fc.array(fc.record({ application: fc.nat(99), ends: fc.integer({ min: 0, max: 30 }) }), {
    minLength: 1,
    maxLength: 200,
  });

  it("a new application gets a slot even if up to 100 applications occupy all slots they can get", () => {
    fc.assert(
      fc.property(steps, (taken) => {
        const busy = new Map<number, number>();
        const total = () => [...busy.values()].reduce((all, count) => all + count, 0);
        for (const { application: id, ends } of taken) {
          busy.set(id, Math.max(0, (busy.get(id) ?? 0) - ends));
          const greedy = application(manyEndpoints(`${id}`, 300), { busy: busy.get(id) ?? 0 });
          busy.set(id, greedy.busy + sum(given({ busy: total() }, greedy)));
          const newcomer = application([endpoint("newcomer")], { usedMs: 0 });
          expect(given({ busy: total() }, greedy, newcomer).newcomer).to.be.at.least(1);
        }
      }),
      { numRuns: 30 },
    );
  });
});
