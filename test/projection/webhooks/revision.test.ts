import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { connect, JSONCodec } from "nats";
import { deriveStreamNames } from "../../../projection/relay/event-stream.ts";
import { type RelayMessage, relayMessageSchema } from "../../../projection/relay/message.ts";
import { webhookBodies } from "../../../query-api/docs/webhooks.ts";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createWorld, type World } from "./world.ts";

interface Body {
  id: string;
  data: { appointment: { id: string; revision?: number; status: string } };
}

describe("the appointment's revision in webhooks", () => {
  let world: World;
  let receiver: Receiver;

  beforeEach(async () => {
    world = await createWorld();
    receiver = await startReceiver();
  });
  afterEach(async () => {
    await world.close();
    await receiver.close();
  });

  const readBodies = () => receiver.requests.map(({ body }) => JSON.parse(body) as Body);

  /**
   * Requests an appointment, allocates a resource and confirms the appointment. The allocation causes no public event.
   */
  const createConfirmedAppointment = async (clinicId: string) => {
    const { appointmentId, eventId: requestedEventId } = await world.requestAppointment(clinicId);
    await world.changeAppointment(appointmentId, {
      type: "ResourceAllocated",
      data: {
        ...{ appointmentId, assignmentId: randomUUID(), resourceId: randomUUID() },
        allocationStart: "2030-05-01T09:00:00.000Z",
        allocationEnd: "2030-05-01T09:30:00.000Z",
      },
    });
    const confirmedEventId = await world.changeAppointment(appointmentId, {
      type: "AppointmentConfirmed",
      data: { appointmentId },
    });
    return { appointmentId, requestedEventId, confirmedEventId };
  };

  it("the webhook with the highest appointment revision contains the appointment's latest state", async () => {
    world.startAll();
    const endpoint = await world.registerEndpoint(receiver.url);
    // The first delivery fails once, so that it arrives after the second delivery.
    receiver.queueReactions({ status: 500 });
    const { appointmentId, requestedEventId, confirmedEventId } = await createConfirmedAppointment(endpoint.clinicId);
    for (const id of [requestedEventId, confirmedEventId]) {
      await world.waitForDelivery(id, endpoint, ({ status }) => status === "delivered");
    }
    const revisions = new Map(readBodies().map(({ id, data }) => [id, data.appointment.revision]));
    expect([revisions.get(requestedEventId), revisions.get(confirmedEventId)]).to.deep.equal([0, 2]);
    for (const body of readBodies()) webhookBodies.AppointmentEvent.parse(body);
    const newestBody = readBodies().reduce((newest, next) =>
      next.data.appointment.revision! > newest.data.appointment.revision! ? next : newest,
    );
    expect(newestBody.data.appointment.status).to.equal("confirmed");
    const { rows } = await world.pool.query(
      `SELECT revision, status FROM ${READ_MODEL_SCHEMA}.appointment WHERE appointment_id = $1`,
      [appointmentId],
    );
    expect(rows).to.deep.equal([{ revision: 2, status: "confirmed" }]);
  });

  it("a replayed webhook has the same body and appointment revision as the first attempt", async () => {
    world.startAll({ retryScheduleSeconds: [] });
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.setDefaultReaction({ status: 500 });
    const { requestedEventId, confirmedEventId } = await createConfirmedAppointment(endpoint.clinicId);
    for (const id of [requestedEventId, confirmedEventId]) {
      await world.waitForDelivery(id, endpoint, ({ status }) => status === "failed");
    }
    receiver.setDefaultReaction({});
    const { endpointId } = endpoint;
    for (const id of [confirmedEventId, requestedEventId]) {
      const deliveryId = deriveWebhookDeliveryId(id, endpointId);
      await world.append(`webhookDelivery-${deliveryId}`, {
        type: "WebhookDeliveryReplayRequested",
        data: { deliveryId, endpointId },
      });
      await world.waitForDelivery(id, endpoint, ({ status }) => status === "delivered");
      const sentBodies = receiver.listDeliveryRequests(deliveryId).map(({ body }) => body);
      expect(sentBodies).to.have.length(2);
      expect(sentBodies[0]).to.equal(sentBodies[1]);
    }
    expect(readBodies().map(({ data }) => data.appointment.revision)).to.have.members([0, 2, 0, 2]);
  });

  it("a message from an earlier release, without an appointment revision, is delivered unchanged", async () => {
    world.start.projectors();
    world.start.webhooks();
    const endpoint = await world.registerEndpoint(receiver.url);
    // The message needs a real event, because the dispatcher waits until the read models have processed the message's
    // event.
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    const stream = `appointment-${appointmentId}`;
    const event = await world.log.readLast(stream);
    const body = {
      ...{ id: eventId, type: "appointment.created", apiVersion: "v1", createdAt: new Date().toISOString() },
      ...{ environment: "production", clinicId: endpoint.clinicId, branchId: randomUUID() },
      data: { appointment: { id: appointmentId, status: "requested" } },
    };
    const message = {
      ...{ kind: "event", position: String(event!.position), stream, revision: "0" },
      ...{ correlationId: randomUUID(), body },
    };
    expect(relayMessageSchema.parse(message)).to.deep.include({ body, onlyEndpointId: null });
    const { subjectPrefix } = deriveStreamNames(world.databaseUrl);
    const natsConnection = await connect({ servers: world.natsUrl });
    const messageBytes = JSONCodec().encode(message as RelayMessage);
    // The webhooks role may not have created the stream yet.
    await eventually("the stream accepts the message", () =>
      natsConnection
        .jetstream()
        .publish(`${subjectPrefix}.production.appointment.created`, messageBytes)
        .catch(() => undefined),
    );
    await natsConnection.close();
    await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "delivered");
    expect(receiver.requests.map(({ body: text }) => text)).to.deep.equal([JSON.stringify(body)]);
  });
});
