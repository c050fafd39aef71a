import { expect } from "chai";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

/** Endpoints of the application that is in the way, and deliveries that are due at each. */
const ENDPOINTS = 49;
const EACH = 6;

/** Attempts that such an application has under way at least, when it has all that it can get. */
const MANY = 100;

/** Longer than any test: no attempt ends by itself. Milliseconds. */
const TIMEOUT = 300_000;

describe("an application whose endpoints do not answer", function () {
  this.timeout(120_000);
  let world: World;
  let slow: Receiver;
  let healthy: Receiver;

  beforeEach(async () => {
    world = await createWorld();
    slow = await startReceiver();
    healthy = await startReceiver();
    world.startAll({ timeoutMs: TIMEOUT });
  });
  afterEach(async () => {
    await slow.close();
    await healthy.close();
    await world.close();
  });

  /** Registers 49 endpoints of one application at one clinic. */
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
    for (let n = 0; n < EACH; n += 1) await world.appointment(clinicId, { environment });
  }
  /** Waits until the application has as many attempts under way as it can get. */
  const untilFull = (endpoint: Endpoint) =>
    eventually("many attempts", async () => (await attempts(endpoint, "under way")) >= MANY, 40_000);
  async function expectDelivered(endpoint: Endpoint, environment: Environment): Promise<void> {
    const { eventId } = await world.appointment(endpoint.clinicId, { environment });
    await world.until(eventId, endpoint, ({ status }) => status === "delivered", 40_000);
  }

  it("an endpoint that does not answer delays no application on another host", async () => {
    slow.always({ mode: "hang" });
    const hanging = await registerMany(slow.url, "sandbox");
    const other = await world.endpoint(healthy.url, { environment: "sandbox" });
    await fill(hanging, "sandbox");
    await untilFull(hanging);
    await expectDelivered(other, "sandbox");
    expect(await attempts(hanging, "ended")).to.equal(0);
  });

  it("an endpoint that does not answer delays no application on the same host", async () => {
    slow.always({ mode: "hang" });
    slow.always({ status: 200 }, "/healthy");
    const hanging = await registerMany(slow.url, "sandbox");
    const other = await world.endpoint(`${slow.url}/healthy`, { environment: "sandbox" });
    await fill(hanging, "sandbox");
    await untilFull(hanging);
    await expectDelivered(other, "sandbox");
    expect(await attempts(hanging, "ended")).to.equal(0);
  });

  it("an endpoint that does not answer delays nothing in the other environment", async () => {
    slow.always({ mode: "hang" });
    const hanging = await registerMany(slow.url, "sandbox");
    const other = await world.endpoint(healthy.url, { environment: "production" });
    await fill(hanging, "sandbox");
    await untilFull(hanging);
    await expectDelivered(other, "production");
    expect(await attempts(hanging, "ended")).to.equal(0);
  });

  it("slow successful answers delay no other application", async () => {
    slow.always({ mode: "hold" });
    const holding = await registerMany(slow.url, "sandbox");
    const other = await world.endpoint(healthy.url, { environment: "sandbox" });
    await fill(holding, "sandbox");
    await untilFull(holding);
    const firstWave = await attempts(holding, "under way");
    // They succeed, so that no endpoint fails, and the application takes all it can get again.
    const released = slow.held();
    slow.release();
    await eventually("the outcomes", async () => (await attempts(holding, "ended")) >= released);
    for (let n = 0; n < EACH; n += 1) await fill(holding, "sandbox");
    await eventually(
      "as many again",
      async () => (await attempts(holding, "under way")) >= firstWave - 16,
      40_000,
    );
    const ended = await attempts(holding, "ended");
    for (let n = 0; n < 5; n += 1) await expectDelivered(other, "sandbox");
    expect(await attempts(holding, "ended")).to.equal(ended);
  });

  it("an endpoint that does not answer delays no other endpoint of its application", async () => {
    slow.always({ mode: "hold" });
    const holding = await registerMany(slow.url, "sandbox");
    await fill(holding, "sandbox");
    await untilFull(holding);
    const sibling = await world.endpoint(healthy.url, { environment: "sandbox", sibling: holding });
    await expectDelivered(sibling, "sandbox");
    expect(slow.held()).to.be.above(0);
  });
});
