import { expect } from "chai";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

/** Number of endpoints of the slow application. */
const ENDPOINTS = 49;

/** Number of due deliveries at each endpoint of the slow application. */
const DELIVERIES_EACH = 6;

/** Minimum number of concurrent attempts of an application that occupies all slots it can get. */
const MIN_CONCURRENT_ATTEMPTS = 100;

/** Time limit of attempts, longer than any test, so that no attempt times out. Milliseconds. */
const ATTEMPT_TIMEOUT_MS = 300_000;

describe("an application whose endpoints do not answer", function () {
  this.timeout(120_000);
  let world: World;
  let slow: Receiver;
  let healthy: Receiver;

  beforeEach(async () => {
    world = await createWorld();
    slow = await startReceiver();
    healthy = await startReceiver();
    world.startAll({ timeoutMs: ATTEMPT_TIMEOUT_MS });
  });
  afterEach(async () => {
    await slow.close();
    await healthy.close();
    await world.close();
  });

  /** Registers the endpoints of the slow application at one clinic. @returns one of the endpoints */
  async function registerMany(url: string, environment: Environment): Promise<Endpoint> {
    const sibling = await world.endpoint(url, { environment });
    const others = Array.from({ length: ENDPOINTS - 1 }, () => world.endpoint(url, { environment, sibling }));
    await Promise.all(others);
    return sibling;
  }
  const attempts = async ({ applicationId }: Endpoint, which: "under way" | "ended") => {
    const { rows } = await world.pool.query<{ count: number }>(
      `SELECT count(*)::integer AS count FROM webhooks.attempt a JOIN webhooks.delivery d USING (delivery_id)
        WHERE d.application_id = $1 AND (a.duration_ms IS NOT NULL) = $2`,
      [applicationId, which === "ended"],
    );
    return rows[0]?.count ?? 0;
  };
  async function fill({ clinicId }: Endpoint, environment: Environment): Promise<void> {
    for (let n = 0; n < DELIVERIES_EACH; n += 1) await world.appointment(clinicId, { environment });
  }
  /** Waits until the application occupies all slots that it can get. */
  const untilFull = (endpoint: Endpoint) =>
    eventually(
      "many attempts",
      async () => (await attempts(endpoint, "under way")) >= MIN_CONCURRENT_ATTEMPTS,
      40_000,
    );
  async function expectDelivered(endpoint: Endpoint, environment: Environment): Promise<void> {
    const { eventId } = await world.appointment(endpoint.clinicId, { environment });
    await world.until(eventId, endpoint, ({ status }) => status === "delivered", 40_000);
  }

  it("endpoints that do not respond delay no application with another host", async () => {
    slow.always({ mode: "hang" });
    const hanging = await registerMany(slow.url, "sandbox");
    const other = await world.endpoint(healthy.url, { environment: "sandbox" });
    await fill(hanging, "sandbox");
    await untilFull(hanging);
    await expectDelivered(other, "sandbox");
    expect(await attempts(hanging, "ended")).to.equal(0);
  });

  it("endpoints that do not respond delay no other application with the same host", async () => {
    slow.always({ mode: "hang" });
    slow.always({ status: 200 }, "/healthy");
    const hanging = await registerMany(slow.url, "sandbox");
    const other = await world.endpoint(`${slow.url}/healthy`, { environment: "sandbox" });
    await fill(hanging, "sandbox");
    await untilFull(hanging);
    await expectDelivered(other, "sandbox");
    expect(await attempts(hanging, "ended")).to.equal(0);
  });

  it("endpoints that do not respond in one environment delay no delivery in the other environment", async () => {
    slow.always({ mode: "hang" });
    const hanging = await registerMany(slow.url, "sandbox");
    const other = await world.endpoint(healthy.url, { environment: "production" });
    await fill(hanging, "sandbox");
    await untilFull(hanging);
    await expectDelivered(other, "production");
    expect(await attempts(hanging, "ended")).to.equal(0);
  });

  it("endpoints that respond slowly but successfully delay no other application", async () => {
    slow.always({ mode: "hold" });
    const holding = await registerMany(slow.url, "sandbox");
    const other = await world.endpoint(healthy.url, { environment: "sandbox" });
    await fill(holding, "sandbox");
    await untilFull(holding);
    const firstWave = await attempts(holding, "under way");
    // The attempts succeed, so no endpoint is limited to one slot, and the application occupies all slots again.
    const released = slow.held();
    slow.release();
    await eventually("the outcomes", async () => (await attempts(holding, "ended")) >= released);
    for (let n = 0; n < DELIVERIES_EACH; n += 1) await fill(holding, "sandbox");
    await eventually(
      "as many again",
      async () => (await attempts(holding, "under way")) >= firstWave - 16,
      40_000,
    );
    const ended = await attempts(holding, "ended");
    for (let n = 0; n < 5; n += 1) await expectDelivered(other, "sandbox");
    expect(await attempts(holding, "ended")).to.equal(ended);
  });

  it("endpoints that do not respond delay no other endpoint of their application", async () => {
    slow.always({ mode: "hold" });
    const holding = await registerMany(slow.url, "sandbox");
    await fill(holding, "sandbox");
    await untilFull(holding);
    const sibling = await world.endpoint(healthy.url, { environment: "sandbox", sibling: holding });
    await expectDelivered(sibling, "sandbox");
    expect(slow.held()).to.be.above(0);
  });
});
