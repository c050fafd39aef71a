import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { Webhook } from "standardwebhooks";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { startUnresponsiveServer } from "../../support/unresponsive-server.ts";
import { createWorld, type World } from "./world.ts";

describe("webhook delivery", () => {
  let world: World;
  let receiver: Receiver;

  before(async () => {
    world = await createWorld();
    world.startAll();
  });
  after(() => world.close());
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.close());

  it("the webhook of a new appointment has a signature that Standard Webhooks libraries verify", async () => {
    const endpoint = await world.registerEndpoint(`${receiver.url}/in?a=b`);
    const { eventId, appointmentId } = await world.requestAppointment(endpoint.clinicId);
    const delivery = await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "delivered");
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

  it("the webhook about a change contains the appointment's state after that change", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { appointmentId } = await world.requestAppointment(endpoint.clinicId);
    const confirmedEventId = await world.changeAppointment(appointmentId, {
      type: "AppointmentConfirmed",
      data: { appointmentId },
    });
    const arrivedEventId = await world.changeAppointment(appointmentId, {
      type: "AppointmentCheckedIn",
      data: { appointmentId },
    });
    await world.waitForDelivery(confirmedEventId, endpoint, ({ status }) => status === "delivered");
    await world.waitForDelivery(arrivedEventId, endpoint, ({ status }) => status === "delivered");
    const bodies = receiver.requests.map(({ body }) => JSON.parse(body));
    const findStatus = (id: string) => bodies.find((body) => body.id === id)?.data.appointment.status;
    expect(findStatus(confirmedEventId)).to.equal("confirmed");
    expect(findStatus(arrivedEventId)).to.equal("checked_in");
  });

  it("the sender uses separate connections for two applications at the same origin", async () => {
    for (let n = 0; n < 2; n += 1) {
      const endpoint = await world.registerEndpoint(receiver.url);
      const { eventId } = await world.requestAppointment(endpoint.clinicId);
      await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "delivered");
    }
    const [firstPort, secondPort] = receiver.requests.map(({ senderPort }) => senderPort);
    expect(firstPort).not.to.equal(secondPort);
  });

  it("an attempt at a receiver that accepts no connection is recorded as connection_timeout", async () => {
    const deafServer = await startUnresponsiveServer();
    const endpoint = await world.registerEndpoint(`http://127.0.0.1:${deafServer.port}`);
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const { attempts } = await world.waitForDelivery(
      eventId,
      endpoint,
      ({ attempts: [attempt] }) => attempt?.error != null,
    );
    expect(attempts[0]).to.deep.include({ status_code: null, error: "connection_timeout", answer: null });
    await deafServer.close();
  });

  it("allocating or releasing a resource of an appointment sends no webhook", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { appointmentId } = await world.requestAppointment(endpoint.clinicId);
    const assignmentId = randomUUID();
    const silentEventIds = [
      await world.changeAppointment(appointmentId, {
        type: "ResourceAllocated",
        data: {
          appointmentId,
          assignmentId,
          resourceId: randomUUID(),
          allocationStart: "2030-05-01T09:00:00.000Z",
          allocationEnd: "2030-05-01T09:30:00.000Z",
        },
      }),
      await world.changeAppointment(appointmentId, {
        type: "ResourceReleased",
        data: { appointmentId, assignmentId },
      }),
    ];
    // Messages are processed in the order of the log, so the earlier messages are processed before this message.
    const confirmedEventId = await world.changeAppointment(appointmentId, {
      type: "AppointmentConfirmed",
      data: { appointmentId },
    });
    await world.waitForDelivery(confirmedEventId, endpoint, ({ status }) => status === "delivered");
    for (const eventId of silentEventIds) expect(await world.readDelivery(eventId, endpoint)).to.equal(undefined);
  });

  it("a delivery keeps its id across all retries, and can be replayed after the last retry", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.setDefaultReaction({ status: 500, body: "broken" });
    const { eventId, appointmentId } = await world.requestAppointment(endpoint.clinicId);
    const failedDelivery = await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "failed");
    expect(failedDelivery.attempts.map(({ status_code }) => status_code)).to.deep.equal([500, 500, 500, 500]);
    const deliveryId = deriveWebhookDeliveryId(eventId, endpoint.endpointId);
    expect(receiver.listDeliveryRequests(deliveryId)).to.have.length(4);
    const facts = await eventually("the fact", async () => {
      const events = await world.log.read(`webhookDelivery-${deliveryId}`);
      return events.length > 0 && events;
    });
    expect(facts.map(({ type, data }) => ({ type, data }))).to.deep.equal([
      {
        type: "WebhookDeliveryFailed",
        data: {
          deliveryId,
          endpointId: endpoint.endpointId,
          attempts: 4,
          source: { stream: `appointment-${appointmentId}`, revision: 0 },
        },
      },
    ]);
    receiver.setDefaultReaction({});
    const { endpointId } = endpoint;
    await world.append(`webhookDelivery-${deliveryId}`, {
      type: "WebhookDeliveryReplayRequested",
      data: { deliveryId, endpointId },
    });
    const delivery = await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "delivered");
    expect(delivery.attempts).to.have.length(5);
    expect(new Set(receiver.requests.map(({ body }) => body)).size).to.equal(1);
    for (const { body, headers } of receiver.requests) {
      new Webhook(endpoint.secret).verify(body, headers as Record<string, string>);
    }
  });

  it("a delivery that needs an asymmetric signature is not sent without a signing key", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { endpointId } = endpoint;
    const data = { endpointId, asymmetricSignature: true };
    await world.append(`webhookEndpoint-${endpointId}`, { type: "WebhookEndpointChanged", data });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const { attempts } = await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "failed");
    expect(new Set(attempts.map(({ error }) => error))).to.deep.equal(new Set(["not_signed"]));
    expect(receiver.requests).to.have.length(0);
  });
});
