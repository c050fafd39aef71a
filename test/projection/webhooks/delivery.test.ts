import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { Webhook } from "standardwebhooks";
import { eventBodies } from "../../../shared/partner-api/webhook-body.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../support/webhook-libraries.ts";
import { createWorld, type Endpoint } from "./world.ts";

describe("webhook delivery", () => {
  const world = useResource(createWorld);
  const receiver = useResource(startReceiver, "test");

  before(() => world.startAll());

  it("the webhook of a new appointment has a signature that Standard Webhooks libraries verify", async () => {
    const endpoint = await world.registerEndpoint(`${receiver.url}/in?a=b`);
    const { eventId, appointmentId } = await world.requestAppointment(endpoint.clinicId);
    const delivery = await world.awaitStatus(eventId, endpoint, "delivered");
    expect(delivery.attempts).to.have.length(1);
    expect(delivery.attempts[0]).to.deep.include({ number: 1, status_code: 200, error: null, answer: "ok" });
    expect(receiver.requests).to.have.length(1);
    const [request] = receiver.requests;
    expect(request!.path).to.equal("/in?a=b");
    const body = new Webhook(endpoint.secret).verify(request!.body, request!.headers as Record<string, string>);
    expect(body).to.deep.include({ id: eventId, type: "appointment.created", clinicId: endpoint.clinicId });
    expect(body).to.have.nested.property("data.appointment.id", appointmentId);
    expect(request!.body).not.to.contain("not for partners");
    const id = deriveWebhookDeliveryId(eventId, endpoint.endpointId);
    expect(request!.headers).to.include({
      "content-type": "application/json",
      "accept-encoding": "identity",
      "webhook-id": id,
      "x-service-delivery-id": id,
      "x-service-signature": request!.headers["webhook-signature"],
      "x-service-timestamp": request!.headers["webhook-timestamp"],
    });
  });

  it("webhooks contain the appointment's revision and its state after the event, also after changes of its resources", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    // The first delivery fails once, so that it arrives after later deliveries.
    receiver.queueReactions({ status: 500 });
    const { appointmentId, eventId: requestedId } = await world.requestAppointment(endpoint.clinicId);
    const assignmentId = randomUUID();
    const allocatedId = await world.changeAppointment(appointmentId, "ResourceAllocated", {
      assignmentId,
      resourceId: randomUUID(),
      allocationStart: "2030-05-01T09:00:00.000Z",
      allocationEnd: "2030-05-01T09:30:00.000Z",
    });
    const confirmedId = await world.changeAppointment(appointmentId, "AppointmentConfirmed");
    const releasedId = await world.changeAppointment(appointmentId, "ResourceReleased", { assignmentId });
    const arrivedId = await world.changeAppointment(appointmentId, "AppointmentCheckedIn");
    const eventIds = [requestedId, allocatedId, confirmedId, releasedId, arrivedId];
    for (const id of eventIds) await world.awaitStatus(id, endpoint, "delivered");
    const bodies = receiver.requests.map(({ body }) => eventBodies.AppointmentEvent.parse(JSON.parse(body)));
    const states = bodies.map(({ id, data: { appointment } }) => [id, appointment.revision, appointment.status]);
    expect(states).to.deep.include.members([
      [requestedId, 0, "requested"],
      [allocatedId, 1, "requested"],
      [confirmedId, 2, "confirmed"],
      [releasedId, 3, "confirmed"],
      [arrivedId, 4, "checked_in"],
    ]);
    expect(states).to.have.length(6);
    const { rows } = await world.pool.query(
      `SELECT revision, status FROM ${READ_MODEL_SCHEMA}.appointment WHERE appointment_id = $1`,
      [appointmentId],
    );
    expect(rows).to.deep.equal([{ revision: 4, status: "checked_in" }]);
  });

  it("a delivery that needs an asymmetric signature is not sent without a signing key", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { asymmetricSignature: true });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const { attempts } = await world.awaitStatus(eventId, endpoint, "failed");
    expect(new Set(attempts.map(({ error }) => error))).to.deep.equal(new Set(["not_signed"]));
    expect(receiver.requests).to.have.length(0);
  });

  async function requestTest(endpoint: Endpoint): Promise<string> {
    const testId = randomUUID();
    await world.append(
      `webhookEndpoint-${testId}`,
      {
        type: "WebhookEndpointTested",
        data: { endpointId: endpoint.endpointId, applicationId: endpoint.applicationId, testId },
      },
      { environment: "production", clinicId: endpoint.clinicId },
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
    const { attempts } = await world.awaitStatus(testId, endpoint, "delivered");
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
    // Events are processed in the order of the log, so a delivery of the test to the other endpoint would exist by
    // then.
    const { eventId } = await world.requestAppointment(clinicId);
    await world.awaitStatus(eventId, siblingEndpoint, "delivered");
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
    await world.awaitStatus(testId, endpoint, "failed");
    expect(receiver.requests).to.have.length(4);
    receiver.setDefaultReaction({});
    const deliveryId = await world.requestReplay(testId, endpoint);
    await world.awaitStatus(testId, endpoint, "delivered");
    expect(new Set(receiver.listDeliveryRequests(deliveryId).map(({ body }) => body)).size).to.equal(1);
  });
});
