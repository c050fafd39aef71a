import { expect } from "chai";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

/** Number of endpoints of the slow application. */
const ENDPOINTS = 49;

/** Number of due deliveries at each endpoint of the slow application. */
const DELIVERIES_EACH = 6;

/** If the slow application has at least this number of concurrent attempts, it has reached its slot limit. */
const MIN_CONCURRENT_ATTEMPTS = 100;

/** Time limit of attempts, longer than any test, so that no attempt times out. Milliseconds. */
const ATTEMPT_TIMEOUT_MS = 300_000;

describe("an application whose endpoints do not respond", function () {
  this.timeout(120_000);
  let world: World;
  let slow: Receiver;
  let healthy: Receiver;
  /** An endpoint of the slow application. */
  let holding: Endpoint;

  before(async () => {
    world = await createWorld();
    slow = await startReceiver();
    healthy = await startReceiver();
    world.startAll({ timeoutMs: ATTEMPT_TIMEOUT_MS });
    slow.setDefaultReaction({ mode: "hold" });
    slow.setDefaultReaction({ status: 200 }, "/healthy");
    holding = await registerMany(slow.url, "sandbox");
    await fill(holding, "sandbox");
    await untilFull(holding);
  });
  after(async () => {
    await slow.close();
    await healthy.close();
    await world.close();
  });

  /** Registers the endpoints of the slow application at one clinic. @returns one of the endpoints */
  async function registerMany(url: string, environment: Environment): Promise<Endpoint> {
    const sibling = await world.registerEndpoint(url, { environment });
    const others = Array.from({ length: ENDPOINTS - 1 }, () =>
      world.registerEndpoint(url, { environment, siblingEndpoint: sibling }),
    );
    await Promise.all(others);
    return sibling;
  }
  const countAttempts = async ({ applicationId }: Endpoint, state: "in progress" | "finished") => {
    const { rows } = await world.pool.query<{ count: number }>(
      `SELECT count(*)::integer AS count FROM webhooks.attempt a JOIN webhooks.delivery d USING (delivery_id)
        WHERE d.application_id = $1 AND (a.duration_ms IS NOT NULL) = $2`,
      [applicationId, state === "finished"],
    );
    return rows[0]?.count ?? 0;
  };
  async function fill({ clinicId }: Endpoint, environment: Environment): Promise<void> {
    for (let n = 0; n < DELIVERIES_EACH; n += 1) await world.requestAppointment(clinicId, { environment });
  }
  /** Waits until the application has reached its slot limit. */
  const untilFull = (endpoint: Endpoint) =>
    eventually(
      "many attempts",
      async () => (await countAttempts(endpoint, "in progress")) >= MIN_CONCURRENT_ATTEMPTS,
      40_000,
    );
  async function expectDelivered(endpoint: Endpoint, environment: Environment): Promise<void> {
    const { eventId } = await world.requestAppointment(endpoint.clinicId, { environment });
    await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "delivered", 40_000);
  }

  it("endpoints that do not respond do not delay an application with another host", async () => {
    const other = await world.registerEndpoint(healthy.url, { environment: "sandbox" });
    await expectDelivered(other, "sandbox");
    expect(await countAttempts(holding, "finished")).to.equal(0);
  });

  it("endpoints that do not respond do not delay another application with the same host", async () => {
    const other = await world.registerEndpoint(`${slow.url}/healthy`, { environment: "sandbox" });
    await expectDelivered(other, "sandbox");
    expect(await countAttempts(holding, "finished")).to.equal(0);
  });

  it("endpoints that do not respond in one environment do not delay deliveries in the other environment", async () => {
    const other = await world.registerEndpoint(healthy.url, { environment: "production" });
    await expectDelivered(other, "production");
    expect(await countAttempts(holding, "finished")).to.equal(0);
  });

  it("endpoints that respond slowly but successfully do not delay another application", async () => {
    const other = await world.registerEndpoint(healthy.url, { environment: "sandbox" });
    const firstWave = await countAttempts(holding, "in progress");
    // After successful attempts, no endpoint is limited to one slot, so the application reaches its slot limit again.
    const released = slow.countHeldRequests();
    slow.release();
    await eventually("the outcomes", async () => (await countAttempts(holding, "finished")) >= released);
    for (let n = 0; n < DELIVERIES_EACH; n += 1) await fill(holding, "sandbox");
    await eventually(
      "as many attempts as before the release",
      async () => (await countAttempts(holding, "in progress")) >= firstWave - 16,
      40_000,
    );
    const finished = await countAttempts(holding, "finished");
    for (let n = 0; n < 5; n += 1) await expectDelivered(other, "sandbox");
    expect(await countAttempts(holding, "finished")).to.equal(finished);
  });

  it("endpoints that do not respond do not delay another endpoint of their application", async () => {
    const sibling = await world.registerEndpoint(healthy.url, { environment: "sandbox", siblingEndpoint: holding });
    await expectDelivered(sibling, "sandbox");
    expect(slow.countHeldRequests()).to.be.above(0);
  });
});
