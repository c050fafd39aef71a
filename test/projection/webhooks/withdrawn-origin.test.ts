import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { skipUnapprovedDeliveries } from "../../../projection/webhooks/record/close-deliveries.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { createWorld, type Endpoint } from "./world.ts";

const DAY_MS = 24 * 60 * 60 * 1_000;

describe("webhooks to an origin whose approval is withdrawn", () => {
  const world = useResource(createWorld);
  let receiver: Receiver;
  let endpoint: Endpoint;
  /** Endpoint of another application at the same origin, which stays approved for that application. */
  let otherEndpoint: Endpoint;
  /** Milliseconds by which the clock of the webhooks role is ahead. */
  let clockAheadMs = 0;

  before(() => world.startAll({ clock: () => Date.now() + clockAheadMs }));
  beforeEach(async () => {
    clockAheadMs = 0;
    receiver = await startReceiver();
    endpoint = await world.registerEndpoint(`${receiver.url}/own`);
    otherEndpoint = await world.registerEndpoint(`${receiver.url}/other`);
  });

  /**
   * Appends the event of an operator's command, and waits until the read models contain it. The test does not run the
   * command, because closing the command's client would make pending appends of the test's client fail.
   */
  async function appendOperatorEvent(
    type: "WebhookOriginApproved" | "WebhookOriginWithdrawn",
    targetEndpoint: Endpoint = endpoint,
  ): Promise<void> {
    const data = { applicationId: targetEndpoint.applicationId, origin: receiver.url };
    await world.append(`partnerApplication-${targetEndpoint.applicationId}`, { type, data });
    const condition = "application_id = $1 AND webhook_origins = $2";
    const origins = JSON.stringify(type === "WebhookOriginApproved" ? [receiver.url] : []);
    await world.awaitRows("partner_application", condition, [data.applicationId, origins]);
  }
  const countRequests = () => receiver.requests.filter(({ path }) => path === "/own").length;
  const waitUntilDelivered = (eventId: string, targetEndpoint = endpoint) =>
    world.awaitStatus(eventId, targetEndpoint, "delivered");
  /**
   * Waits for two new deliveries to `otherEndpoint`. Deliveries that were due before them would have been sent by then.
   */
  async function deliverToOtherEndpoint(): Promise<void> {
    for (let round = 0; round < 2; round += 1)
      await waitUntilDelivered((await world.requestAppointment(otherEndpoint.clinicId)).eventId, otherEndpoint);
  }
  /** Requests an appointment, and waits until its delivery exists. */
  const requestHeldAppointment = async () => {
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "pending");
    return eventId;
  };

  it("deliveries to an origin without approval wait, while deliveries of other applications are sent", async () => {
    await waitUntilDelivered((await world.requestAppointment(endpoint.clinicId)).eventId);
    await appendOperatorEvent("WebhookOriginWithdrawn");
    const eventId = await requestHeldAppointment();
    await deliverToOtherEndpoint();
    expect(countRequests()).to.equal(1);
    const heldDelivery = await world.readDelivery(eventId, endpoint);
    expect(heldDelivery).to.deep.include({ status: "pending", attempt_count: 0 });
    expect(heldDelivery?.next_attempt_at).not.to.equal(null);
    await appendOperatorEvent("WebhookOriginApproved");
    expect((await waitUntilDelivered(eventId)).attempts).to.have.length(1);
    await appendOperatorEvent("WebhookOriginWithdrawn");
    const secondEventId = await requestHeldAppointment();
    await deliverToOtherEndpoint();
    await appendOperatorEvent("WebhookOriginApproved");
    await waitUntilDelivered(secondEventId);
    expect(countRequests()).to.equal(3);
  });

  it("if the approval of an origin is withdrawn, pending deliveries wait and are sent after the next approval", async () => {
    receiver.setDefaultReaction({ delayMs: 50 });
    const appointments = await Promise.all(
      Array.from({ length: 40 }, () => world.requestAppointment(endpoint.clinicId)),
    );
    await eventually("some of them", () => countRequests() >= 4);
    await appendOperatorEvent("WebhookOriginWithdrawn");
    // Attempts in progress finish, and no further attempt starts.
    await eventually("the end of the last attempts", async () => {
      const { rowCount } = await world.pool.query(
        "SELECT FROM webhooks.pending_delivery WHERE endpoint_id = $1 AND lease_expires_at IS NOT NULL",
        [endpoint.endpointId],
      );
      return rowCount === 0;
    });
    const sentCount = countRequests();
    expect(sentCount).to.be.below(40);
    await deliverToOtherEndpoint();
    expect(countRequests()).to.equal(sentCount);
    const pendingSql = "SELECT FROM webhooks.delivery WHERE endpoint_id = $1 AND status = 'pending'";
    expect((await world.pool.query(pendingSql, [endpoint.endpointId])).rowCount).to.equal(40 - sentCount);
    await appendOperatorEvent("WebhookOriginApproved");
    for (const { eventId } of appointments) await waitUntilDelivered(eventId);
    expect(countRequests()).to.equal(40);
  });

  it("a retry waits while the approval of the origin is withdrawn", async () => {
    receiver.queueReactions({ status: 503, headers: { "Retry-After": "60" } });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitFirstResponse(eventId, endpoint, 503);
    await appendOperatorEvent("WebhookOriginWithdrawn");
    clockAheadMs = 120_000;
    await deliverToOtherEndpoint();
    expect(await world.readDelivery(eventId, endpoint)).to.deep.include({ status: "pending", attempt_count: 1 });
    await appendOperatorEvent("WebhookOriginApproved");
    expect((await waitUntilDelivered(eventId)).attempts).to.have.length(2);
  });

  it("while the approval of the origin is withdrawn, replays stop, and test webhooks wait", async () => {
    receiver.queueReactions(...Array(4).fill({ status: 500 }));
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "failed");
    await appendOperatorEvent("WebhookOriginWithdrawn");
    await world.requestReplay(eventId, endpoint);
    const { endpointId, applicationId, clinicId } = endpoint;
    const testId = randomUUID();
    await world.append(
      `webhookEndpoint-${testId}`,
      { type: "WebhookEndpointTested", data: { endpointId, applicationId, testId } },
      { environment: "production", clinicId },
    );
    await world.awaitRows("webhook_replay", "endpoint_id = $1 AND outcome = 'stopped'", [endpointId]);
    await world.awaitStatus(testId, endpoint, "pending");
    await deliverToOtherEndpoint();
    expect(countRequests()).to.equal(4);
    await world.awaitStatus(eventId, endpoint, "failed");
    await appendOperatorEvent("WebhookOriginApproved");
    await waitUntilDelivered(testId);
    await world.requestReplay(eventId, endpoint);
    await waitUntilDelivered(eventId);
  });

  it("deliveries to an origin without approval are skipped after 30 days, and can be replayed", async () => {
    await appendOperatorEvent("WebhookOriginWithdrawn");
    const eventId = await requestHeldAppointment();
    const { closedCounts } = await skipUnapprovedDeliveries(world.pool, Date.now() + 31 * DAY_MS);
    expect(closedCounts.skipped).to.equal(1);
    await world.awaitStatus(eventId, endpoint, "skipped");
    await appendOperatorEvent("WebhookOriginApproved");
    await world.requestReplay(eventId, endpoint);
    await waitUntilDelivered(eventId);
  });

  it("webhooks of the sandbox environment are delivered without an approved origin", async () => {
    const sandboxEndpoint = await world.registerEndpoint(receiver.url, { environment: "sandbox" });
    await appendOperatorEvent("WebhookOriginWithdrawn", sandboxEndpoint);
    const { eventId } = await world.requestAppointment(sandboxEndpoint.clinicId, { environment: "sandbox" });
    await waitUntilDelivered(eventId, sandboxEndpoint);
  });
});
