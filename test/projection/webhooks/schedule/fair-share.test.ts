import { expect } from "chai";
import fc from "fast-check";
import {
  grantSlots,
  type SlotPool,
  type WaitingApplication,
  type WaitingEndpoint,
} from "../../../../projection/webhooks/schedule/fair-share.ts";

interface Endpoint extends WaitingEndpoint {
  name: string;
}

const SLOT_COUNT = 960;

function createEndpoint(name: string, fields: Partial<WaitingEndpoint> = {}): Endpoint {
  return { name, occupiedSlots: 0, maxSlots: 4, usedMs: 0, ...fields };
}

function createApplication(
  endpoints: Endpoint[],
  fields: Partial<WaitingApplication<Endpoint>> = {},
): WaitingApplication<Endpoint> {
  const occupiedSlots = endpoints.reduce((sum, endpoint) => sum + endpoint.occupiedSlots, 0);
  return { occupiedSlots, usedMs: 0, maxNewSlots: SLOT_COUNT, listEndpoints: () => endpoints, ...fields };
}

const createEndpoints = (name: string, count: number) =>
  Array.from({ length: count }, (_, n) => createEndpoint(`${name} ${n}`));

function grant(pool: Partial<SlotPool>, ...applications: WaitingApplication<Endpoint>[]): Record<string, number> {
  const grants = grantSlots(
    { slotCount: SLOT_COUNT, occupiedSlots: 0, maxNewSlots: Number.POSITIVE_INFINITY, ...pool },
    applications,
  );
  return Object.fromEntries([...grants].map(([{ name }, slotCount]) => [name, slotCount]));
}
const sumSlots = (slots: Record<string, number>, prefix = "") =>
  Object.entries(slots).reduce((total, [name, count]) => total + (name.startsWith(prefix) ? count : 0), 0);

describe("the fair share of slots", () => {
  it("a single endpoint with due deliveries gets the maximum number of slots per endpoint", () => {
    expect(grant({}, createApplication([createEndpoint("a")]))).to.deep.equal({ a: 4 });
  });

  it("a single application with due deliveries gets nearly a fifth of all slots", () => {
    const slotCount = sumSlots(grant({}, createApplication(createEndpoints("a", 1_000))));
    expect(slotCount).to.be.within(188, SLOT_COUNT / 5);
  });

  it("if 20 applications have reached their slot limits, a new application gets about the same number of slots", () => {
    const greedyApplications = Array.from({ length: 20 }, (_, n) =>
      createApplication(createEndpoints(`greedy${n} `, 50)),
    );
    const occupiedCount = sumSlots(grant({}, ...greedyApplications));
    const slotCount = sumSlots(grant({ occupiedSlots: occupiedCount }, createApplication(createEndpoints("next", 50))));
    expect(slotCount).to.be.at.least(occupiedCount / 20 - 8);
  });

  it("the last free slot goes to the application whose recent attempts took the least time", () => {
    const slowApplication = createApplication([createEndpoint("slow")], { usedMs: 9_000 });
    const quickApplication = createApplication([createEndpoint("quick")], { usedMs: 40 });
    expect(grant({ occupiedSlots: SLOT_COUNT - 1 }, slowApplication, quickApplication)).to.deep.equal({ quick: 1 });
  });

  it("two applications whose recent attempts took equal time get the same number of slots", () => {
    const slots = grant(
      { maxNewSlots: 10 },
      createApplication(createEndpoints("a", 50)),
      createApplication(createEndpoints("b", 50)),
    );
    expect([sumSlots(slots, "a"), sumSlots(slots, "b")]).to.deep.equal([5, 5]);
  });

  it("an application at the slot limit gets no slot, and the endpoints of the application are not listed", () => {
    const fullApplication: WaitingApplication<Endpoint> = {
      occupiedSlots: 200,
      usedMs: 0,
      maxNewSlots: SLOT_COUNT,
      listEndpoints: () => expect.fail("the endpoints are listed"),
    };
    expect(grant({ occupiedSlots: 200 }, fullApplication, createApplication([createEndpoint("b")]))).to.deep.equal({
      b: 4,
    });
  });

  it("an application that may start only two more attempts gets two slots", () => {
    expect(sumSlots(grant({}, createApplication(createEndpoints("a", 50), { maxNewSlots: 2 })))).to.equal(2);
  });

  it("an application's slot goes to the endpoint whose recent attempts took the least time", () => {
    const endpoints = [createEndpoint("slow", { usedMs: 9_000 }), createEndpoint("quick", { usedMs: 3 })];
    expect(grant({ maxNewSlots: 1 }, createApplication(endpoints))).to.deep.equal({ quick: 1 });
  });

  it("a failing endpoint with an attempt in progress gets no slot", () => {
    expect(grant({}, createApplication([createEndpoint("failing", { occupiedSlots: 1, maxSlots: 1 })]))).to.deep.equal(
      {},
    );
  });

  const endpointsArbitrary = fc.array(
    fc.record({
      occupiedSlots: fc.nat(4),
      maxSlots: fc.integer({ min: 1, max: 4 }),
      usedMs: fc.nat(100_000),
    }),
    { maxLength: 60 },
  );
  const poolArbitrary = fc.record({
    slotCount: fc.integer({ min: 1, max: 1_000 }),
    applications: fc.array(fc.record({ usedMs: fc.nat(1_000_000), endpoints: endpointsArbitrary }), { maxLength: 30 }),
    maxNewSlots: fc.nat(300),
  });

  it("granted slots never exceed the limits per endpoint, per application, per pool and per decision", () => {
    fc.assert(
      fc.property(poolArbitrary, ({ slotCount, applications, maxNewSlots }) => {
        const waitingApplications = applications.map(({ usedMs, endpoints }, applicationIndex) =>
          createApplication(
            endpoints.map((endpoint, endpointIndex) => ({ ...endpoint, name: `${applicationIndex}/${endpointIndex}` })),
            { usedMs },
          ),
        );
        const occupiedSlots = waitingApplications.reduce((total, application) => total + application.occupiedSlots, 0);
        const grants = grantSlots({ slotCount, occupiedSlots, maxNewSlots }, waitingApplications);
        const total = [...grants.values()].reduce((sum, count) => sum + count, 0);
        expect(total).to.be.at.most(Math.max(0, Math.min(maxNewSlots, slotCount - occupiedSlots)));
        for (const [endpoint, count] of grants) expect(endpoint.occupiedSlots + count).to.be.at.most(endpoint.maxSlots);
        for (const { occupiedSlots: ownOccupiedCount, listEndpoints } of waitingApplications) {
          const count = listEndpoints().reduce((sum, endpoint) => sum + (grants.get(endpoint) ?? 0), 0);
          if (count > 0)
            expect(ownOccupiedCount + count).to.be.at.most(Math.max(1, Math.floor((slotCount - occupiedSlots) / 4)));
        }
      }),
    );
  });

  it("a single application with due deliveries gets all slots that the limits allow", () => {
    fc.assert(
      fc.property(fc.integer({ min: 4, max: 1_000 }), fc.integer({ min: 1, max: 300 }), (slotCount, count) => {
        const partnerApplication = createApplication(createEndpoints("a", count));
        const firstGrants = grant({ slotCount }, partnerApplication);
        const occupiedCount = sumSlots(firstGrants);
        const endpoints = partnerApplication
          .listEndpoints()
          .map((endpoint) => ({ ...endpoint, occupiedSlots: firstGrants[endpoint.name] ?? 0 }));
        expect(grant({ slotCount, occupiedSlots: occupiedCount }, createApplication(endpoints))).to.deep.equal({});
        // Either all endpoints have reached their limit, or the application has used nearly all of its share.
        const share = Math.floor((slotCount - occupiedCount) / 4);
        expect(occupiedCount === 4 * count || share - occupiedCount < 16).to.equal(true);
      }),
    );
  });

  /**
   * Random steps of a simulation. In each step, an application ends some attempts and then starts as many as possible.
   */
  const stepsArbitrary = fc.array(fc.record({ application: fc.nat(99), ends: fc.integer({ min: 0, max: 30 }) }), {
    minLength: 1,
    maxLength: 200,
  });

  it("a new application gets a slot even if up to 100 applications have reached their slot limits", () => {
    fc.assert(
      fc.property(stepsArbitrary, (simulatedSteps) => {
        const slotCountById = new Map<number, number>();
        const getTotal = () => [...slotCountById.values()].reduce((sum, count) => sum + count, 0);
        for (const { application: id, ends: endedCount } of simulatedSteps) {
          slotCountById.set(id, Math.max(0, (slotCountById.get(id) ?? 0) - endedCount));
          const greedyApplication = createApplication(createEndpoints(`${id}`, 300), {
            occupiedSlots: slotCountById.get(id) ?? 0,
          });
          slotCountById.set(
            id,
            greedyApplication.occupiedSlots + sumSlots(grant({ occupiedSlots: getTotal() }, greedyApplication)),
          );
          const newApplication = createApplication([createEndpoint("newcomer")], { usedMs: 0 });
          expect(grant({ occupiedSlots: getTotal() }, greedyApplication, newApplication).newcomer).to.be.at.least(1);
        }
      }),
      { numRuns: 30 },
    );
  });
});
