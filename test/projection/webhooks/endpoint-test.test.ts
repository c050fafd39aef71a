import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../support/webhook-libraries.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

describe("the test of an endpoint", () => {
  let world: World;
  let receiver: Receiver;

  before(async () => {
    world = await createWorld();
    world.startAll({ retryScheduleSeconds: [0.05] });
  });
  after(() => world.close());
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.close());

  async function requestTest({ endpointId, clinicId }: Endpoint): Promise<string> {
    const testId = randomUUID();
    const metadata = { environment: "production", clinicId } as const;
    await world.append(
      `webhookEndpoint-${endpointId}`,
      { type: "WebhookEndpointTested", data: { endpointId, testId } },
      metadata,
    );
    return testId;
  }

  it("a test webhook is delivered only to the tested endpoint, with a signature", async () => {
    // A test webhook is sent regardless of the endpoint's event types and branches.
    const endpoint = await world.registerEndpoint(receiver.url, {
      events: ["appointment.updated"],
      branchIds: [randomUUID()],
    });
    const { clinicId, applicationId, endpointId } = endpoint;
    const siblingEndpoint = await world.registerEndpoint(receiver.url, { clinicId });
    const testId = await requestTest(endpoint);
    const { attempts } = await world.waitForDelivery(testId, endpoint, ({ status }) => status === "delivered");
    expect(attempts.map(({ status_code }) => status_code)).to.deep.equal([200]);
    const [request] = receiver.requests;
    expect(listAcceptingLibraries(endpoint.secret, request!)).to.deep.equal(webhookLibraryNames);
    expect(request!.headers["webhook-id"]).to.equal(deriveWebhookDeliveryId(testId, endpointId));
    const { createdAt, ...body } = JSON.parse(request!.body);
    expect(body).to.deep.equal({
      id: testId,
      type: "endpoint.test",
      apiVersion: "v1",
      environment: "production",
      clinicId,
      branchId: null,
      data: { test: true },
    });
    expect(Date.parse(createdAt)).to.be.closeTo(Date.now(), 10_000);
    // Messages are processed in the order of the log, so a delivery of the test to the other endpoint would exist by
    // then.
    const { eventId } = await world.requestAppointment(clinicId);
    await world.waitForDelivery(eventId, siblingEndpoint, ({ status }) => status === "delivered");
    const { rows } = await world.pool.query(
      "SELECT endpoint_id, application_id FROM webhooks.delivery WHERE event_id = $1",
      [testId],
    );
    expect(rows).to.deep.equal([{ endpoint_id: endpointId, application_id: applicationId }]);
  });

  it("a failed test webhook is retried, and can be replayed after the last retry", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.setDefaultReaction({ status: 500 });
    const testId = await requestTest(endpoint);
    await world.waitForDelivery(testId, endpoint, ({ status }) => status === "failed");
    expect(receiver.requests).to.have.length(2);
    receiver.setDefaultReaction({});
    const deliveryId = deriveWebhookDeliveryId(testId, endpoint.endpointId);
    const { endpointId } = endpoint;
    await eventually("the fact", () => world.log.readLast(`webhookDelivery-${deliveryId}`));
    await world.append(`webhookDelivery-${deliveryId}`, {
      type: "WebhookDeliveryReplayRequested",
      data: { deliveryId, endpointId },
    });
    await world.waitForDelivery(testId, endpoint, ({ status }) => status === "delivered");
    expect(new Set(receiver.listDeliveryRequests(deliveryId).map(({ body }) => body)).size).to.equal(1);
  });
});
