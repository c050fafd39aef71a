import { expect } from "chai";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { eventually } from "../../support/eventually.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { createWorld, type Endpoint } from "./world.ts";

/** Number of endpoints of the slow application. */
const ENDPOINT_COUNT = 49;

/** Number of due deliveries at each endpoint of the slow application. */
const DELIVERIES_PER_ENDPOINT = 6;

/** Number of concurrent attempts that shows that the slow application has reached its slot limit. */
const MIN_CONCURRENT_ATTEMPTS = 100;

/** Time limit of an attempt. Longer than any test, so that no attempt times out. Milliseconds. */
const ATTEMPT_TIMEOUT_MS = 300_000;

describe("an application whose endpoints do not respond", () => {
  const world = useResource(createWorld);
  const slowReceiver = useResource(startReceiver);
  const receiver = useResource(startReceiver);
  /** An endpoint of the slow application. */
  let slowEndpoint: Endpoint;

  before(async () => {
    world.startAll({ timeoutMs: ATTEMPT_TIMEOUT_MS });
    slowReceiver.setDefaultReaction({ mode: "hold" });
    slowReceiver.setDefaultReaction({ status: 200 }, "/healthy");
    slowEndpoint = await registerEndpoints(slowReceiver.url, "sandbox");
    await requestAppointments(slowEndpoint, "sandbox");
    await awaitSlotLimit(slowEndpoint);
  });

  /** Registers the endpoints of the slow application. @returns one of them */
  async function registerEndpoints(url: string, environment: Environment): Promise<Endpoint> {
    const siblingEndpoint = await world.registerEndpoint(url, { environment });
    const siblingPromises = Array.from({ length: ENDPOINT_COUNT - 1 }, () =>
      world.registerEndpoint(url, { environment, siblingEndpoint }),
    );
    await Promise.all(siblingPromises);
    return siblingEndpoint;
  }
  const countAttempts = async ({ applicationId }: Endpoint, state: "in progress" | "finished") => {
    const { rows } = await world.pool.query<{ count: number }>(
      `SELECT count(*)::integer AS count FROM webhooks.attempt a JOIN webhooks.delivery d USING (delivery_id)
        WHERE d.application_id = $1 AND (a.duration_ms IS NOT NULL) = $2`,
      [applicationId, state === "finished"],
    );
    return rows[0]?.count ?? 0;
  };
  async function requestAppointments({ clinicId }: Endpoint, environment: Environment): Promise<void> {
    for (let n = 0; n < DELIVERIES_PER_ENDPOINT; n += 1) await world.requestAppointment(clinicId, { environment });
  }
  /** Waits until the application has reached its slot limit. */
  const awaitSlotLimit = (endpoint: Endpoint) =>
    eventually(
      "many attempts",
      async () => (await countAttempts(endpoint, "in progress")) >= MIN_CONCURRENT_ATTEMPTS,
      40_000,
    );
  async function expectDelivered(endpoint: Endpoint, environment: Environment): Promise<void> {
    const { eventId } = await world.requestAppointment(endpoint.clinicId, { environment });
    await world.awaitStatus(eventId, endpoint, "delivered", 40_000);
  }

  for (const [other, path, environment] of [
    ["an application with another host", undefined, "sandbox"],
    ["another application with the same host", "/healthy", "sandbox"],
    ["deliveries in the other environment", undefined, "production"],
  ] as const)
    it(`endpoints that do not respond do not delay ${other}`, async () => {
      const url = path === undefined ? receiver.url : slowReceiver.url + path;
      await expectDelivered(await world.registerEndpoint(url, { environment }), environment);
      expect(await countAttempts(slowEndpoint, "finished")).to.equal(0);
    });

  it("endpoints that do not respond do not delay another endpoint of their application", async () => {
    const sibling = await world.registerEndpoint(receiver.url, {
      environment: "sandbox",
      siblingEndpoint: slowEndpoint,
    });
    await expectDelivered(sibling, "sandbox");
    expect(slowReceiver.countHeldRequests()).to.be.above(0);
  });
});
