import { expect } from "chai";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

/** Number of endpoints of the slow application. */
const ENDPOINT_COUNT = 49;

/** Number of due deliveries at each endpoint of the slow application. */
const DELIVERIES_PER_ENDPOINT = 6;

/** If the slow application has at least this number of concurrent attempts, it has reached its slot limit. */
const MIN_CONCURRENT_ATTEMPTS = 100;

/** Time limit of attempts, longer than any test, so that no attempt times out. Milliseconds. */
const ATTEMPT_TIMEOUT_MS = 300_000;

describe("an application whose endpoints do not respond", () => {
  let world: World;
  let slowReceiver: Receiver;
  let receiver: Receiver;
  /** An endpoint of the slow application. */
  let slowEndpoint: Endpoint;

  before(async () => {
    world = await createWorld();
    slowReceiver = await startReceiver();
    receiver = await startReceiver();
    world.startAll({ timeoutMs: ATTEMPT_TIMEOUT_MS });
    slowReceiver.setDefaultReaction({ mode: "hold" });
    slowReceiver.setDefaultReaction({ status: 200 }, "/healthy");
    slowEndpoint = await registerEndpoints(slowReceiver.url, "sandbox");
    await requestAppointments(slowEndpoint, "sandbox");
    await awaitSlotLimit(slowEndpoint);
  });
  after(async () => {
    await slowReceiver.close();
    await receiver.close();
    await world.close();
  });

  /** Registers the endpoints of the slow application at one clinic. @returns one of the endpoints */
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

  it("endpoints that do not respond do not delay an application with another host", async () => {
    const otherEndpoint = await world.registerEndpoint(receiver.url, { environment: "sandbox" });
    await expectDelivered(otherEndpoint, "sandbox");
    expect(await countAttempts(slowEndpoint, "finished")).to.equal(0);
  });

  it("endpoints that do not respond do not delay another application with the same host", async () => {
    const otherEndpoint = await world.registerEndpoint(`${slowReceiver.url}/healthy`, { environment: "sandbox" });
    await expectDelivered(otherEndpoint, "sandbox");
    expect(await countAttempts(slowEndpoint, "finished")).to.equal(0);
  });

  it("endpoints that do not respond in one environment do not delay deliveries in the other environment", async () => {
    const otherEndpoint = await world.registerEndpoint(receiver.url, { environment: "production" });
    await expectDelivered(otherEndpoint, "production");
    expect(await countAttempts(slowEndpoint, "finished")).to.equal(0);
  });

  it("endpoints that respond slowly but successfully do not delay another application", async () => {
    const otherEndpoint = await world.registerEndpoint(receiver.url, { environment: "sandbox" });
    const firstWaveCount = await countAttempts(slowEndpoint, "in progress");
    // After successful attempts, no endpoint is limited to one slot, so the application reaches its slot limit again.
    const heldRequestCount = slowReceiver.countHeldRequests();
    slowReceiver.release();
    await eventually("the outcomes", async () => (await countAttempts(slowEndpoint, "finished")) >= heldRequestCount);
    for (let n = 0; n < DELIVERIES_PER_ENDPOINT; n += 1) await requestAppointments(slowEndpoint, "sandbox");
    await eventually(
      "as many attempts as before the release",
      async () => (await countAttempts(slowEndpoint, "in progress")) >= firstWaveCount - 16,
      40_000,
    );
    const finishedCount = await countAttempts(slowEndpoint, "finished");
    for (let n = 0; n < 5; n += 1) await expectDelivered(otherEndpoint, "sandbox");
    expect(await countAttempts(slowEndpoint, "finished")).to.equal(finishedCount);
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
