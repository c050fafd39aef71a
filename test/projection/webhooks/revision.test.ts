import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { webhookBodies } from "../../../query-api/docs/webhooks.ts";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
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
        appointmentId,
        assignmentId: randomUUID(),
        resourceId: randomUUID(),
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
});
