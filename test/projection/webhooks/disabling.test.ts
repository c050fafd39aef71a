import { expect } from "chai";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

const DAY_MS = 24 * 60 * 60 * 1_000;

describe("automatic disabling of an endpoint", () => {
  let world: World;
  let receiver: Receiver;
  let endpoint: Endpoint;
  /** Milliseconds by which the clock of the webhooks role is ahead. */
  let clockAheadMs = 0;

  before(async () => {
    world = await createWorld();
    // Each delivery has two attempts.
    world.startAll({ clock: () => Date.now() + clockAheadMs, retryScheduleSeconds: [0.02] });
  });
  after(() => world.close());
  beforeEach(async () => {
    clockAheadMs = 0;
    receiver = await startReceiver();
    receiver.setDefaultReaction({ status: 500 });
    endpoint = await world.registerEndpoint(receiver.url);
  });
  afterEach(() => receiver.close());

  /** Creates one delivery on the given day after the start of the test, and waits for its final status. */
  async function deliverOn(day: number, outcome: "failed" | "delivered" = "failed"): Promise<void> {
    clockAheadMs = day * DAY_MS;
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, outcome);
  }
  async function failOn(...days: number[]): Promise<void> {
    for (const day of days) await deliverOn(day);
  }
  const readEndpoint = () => world.readEndpointState(endpoint);
  const awaitStatus = (status: string) => world.awaitEndpointStatus(endpoint, status);
  /** Creates one more delivery, whose first failed attempt disables the endpoint. */
  async function disableOn(day: number) {
    clockAheadMs = day * DAY_MS;
    await world.requestAppointment(endpoint.clinicId);
    return awaitStatus("disabled");
  }
  /**
   * Checks that the endpoint is active. A successful delivery proves that the outbox holds no event that disables the
   * endpoint.
   */
  async function expectActive(day: number): Promise<void> {
    receiver.queueReactions({ status: 200 });
    await deliverOn(day, "delivered");
    expect(await readEndpoint()).to.deep.include({ status: "active" });
  }
  const enable = async () => {
    await world.changeEndpoint(endpoint, "WebhookEndpointEnabled");
    await awaitStatus("active");
  };

  it("an endpoint without a success for five days is disabled", async () => {
    await failOn(0, 1, 2, 3, 4);
    expect(await readEndpoint()).to.deep.include({ status: "active" });
    expect(await disableOn(5.01)).to.deep.include({ disabled_reason: "no_success" });
  });

  it("an endpoint with one failure five days ago and one failure today stays active", async () => {
    await failOn(0, 5.1);
    await expectActive(5.1);
  });

  it("an endpoint with many failures five days ago and today stays active if no attempts were made in between", async () => {
    await failOn(0, 0, 0, 0, 0, 0, 5.1, 5.1, 5.1, 5.1, 5.1, 5.1);
    await expectActive(5.1);
  });

  it("an endpoint that fails for more than five days is disabled only after ten failed attempts", async () => {
    await failOn(0, 1.9, 3.8, 5.6);
    expect(await readEndpoint()).to.deep.include({ status: "active" });
    await deliverOn(5.7);
    await awaitStatus("disabled");
  });

  it("a successful attempt resets the failure period of an endpoint", async () => {
    await failOn(0, 1, 2, 3, 4);
    receiver.queueReactions({ status: 200 });
    await deliverOn(4.5, "delivered");
    await failOn(5.1, 6, 7, 8, 9, 10);
    expect(await readEndpoint()).to.deep.include({ status: "active" });
    await disableOn(10.2);
  });

  it("the failure period is reset if an operator disables and enables an endpoint", async () => {
    await failOn(0, 1, 2, 3, 4);
    await world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "operator" });
    await awaitStatus("disabled");
    await enable();
    await deliverOn(5.1);
    await expectActive(5.1);
  });

  it("the failure period is reset if an operator enables an endpoint that was disabled because of failures", async () => {
    await failOn(0, 1, 2, 3, 4);
    await disableOn(5.1);
    await enable();
    await deliverOn(5.2);
    await expectActive(5.2);
  });

  it("failures of one endpoint do not disable another endpoint of the same clinic", async () => {
    const { clinicId } = endpoint;
    const otherReceiver = await startReceiver();
    const healthyEndpoint = await world.registerEndpoint(otherReceiver.url, { clinicId });
    await failOn(0, 1, 2, 3, 4);
    await disableOn(5.1);
    const { eventId } = await world.requestAppointment(clinicId);
    await world.awaitStatus(eventId, healthyEndpoint, "delivered");
    await otherReceiver.close();
  });
});
