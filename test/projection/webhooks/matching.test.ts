import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

describe("endpoints that get an event", () => {
  let world: World;
  let receiver: Receiver;

  before(async () => {
    world = await createWorld();
    world.startAll();
    receiver = await startReceiver();
  });
  after(async () => {
    await world.close();
    await receiver.close();
  });

  /**
   * Returns the deliveries of an event. First waits for the delivery of a later appointment, because messages are
   * processed in order.
   */
  const listDeliveries = async (eventId: string, witnessEndpoint: Endpoint) => {
    const { eventId: lastEventId } = await world.requestAppointment(witnessEndpoint.clinicId);
    await world.waitForDelivery(lastEventId, witnessEndpoint, ({ status }) => status === "delivered");
    const { rows } = await world.pool.query<{ endpoint_id: string; status: string }>(
      "SELECT endpoint_id, status FROM webhooks.delivery WHERE event_id = $1",
      [eventId],
    );
    return rows;
  };

  it("an event is delivered once to each endpoint of the event's clinic, and to no other endpoint", async () => {
    const firstEndpoint = await world.registerEndpoint(receiver.url);
    const secondEndpoint = await world.registerEndpoint(receiver.url, { clinicId: firstEndpoint.clinicId });
    await world.registerEndpoint(receiver.url);
    const { eventId } = await world.requestAppointment(firstEndpoint.clinicId);
    const rows = await listDeliveries(eventId, firstEndpoint);
    expect(rows.map(({ endpoint_id }) => endpoint_id)).to.have.members([
      firstEndpoint.endpointId,
      secondEndpoint.endpointId,
    ]);
  });

  it("an imported appointment is not sent, but later changes of the appointment are sent as updates", async () => {
    const witness = await world.registerEndpoint(receiver.url);
    const { clinicId } = witness;
    const appointmentId = randomUUID();
    const references = { branchId: randomUUID(), animalId: null, customerId: null };
    const schedule = { scheduledAt: "2030-05-01T09:00:00.000Z", durationMinutes: 30 };
    const otherFields = { reason: null, notes: null, requestedAt: null, statusAt: null, requestHash: "hash" };
    const importedEventId = await world.append(
      `appointment-${appointmentId}`,
      {
        type: "AppointmentImported",
        data: { appointmentId, clinicId, ...references, ...schedule, ...otherFields, status: "requested" },
      },
      { environment: "production", clinicId },
    );
    const data = { appointmentId };
    const changedEventId = await world.changeAppointment(appointmentId, { type: "AppointmentConfirmed", data });
    await world.waitForDelivery(changedEventId, witness, ({ status }) => status === "delivered");
    const body = receiver.requests
      .map((request) => JSON.parse(request.body))
      .find(({ data }) => data.appointment?.id === appointmentId);
    expect(body).to.include({ type: "appointment.updated", clinicId });
    expect(body.data.appointment).to.include({ status: "confirmed", scheduledAt: schedule.scheduledAt });
    expect(await listDeliveries(importedEventId, witness)).to.deep.equal([]);
  });

  it("an event is delivered only to endpoints of the event's environment", async () => {
    const witness = await world.registerEndpoint(receiver.url);
    await world.registerEndpoint(receiver.url, { clinicId: witness.clinicId, environment: "sandbox" });
    const { eventId } = await world.requestAppointment(witness.clinicId);
    expect(await listDeliveries(eventId, witness)).to.have.length(1);
  });

  it("an event is delivered only to endpoints that subscribed to the event's type", async () => {
    const witness = await world.registerEndpoint(receiver.url);
    const { clinicId } = witness;
    const updatesEndpoint = await world.registerEndpoint(receiver.url, {
      clinicId,
      events: ["appointment.updated"],
    });
    const { eventId, appointmentId } = await world.requestAppointment(clinicId);
    const changedEventId = await world.changeAppointment(appointmentId, {
      type: "AppointmentConfirmed",
      data: { appointmentId },
    });
    expect(await listDeliveries(eventId, witness)).to.have.length(1);
    const rows = await listDeliveries(changedEventId, witness);
    expect(rows.map(({ endpoint_id }) => endpoint_id))
      .to.include(updatesEndpoint.endpointId)
      .and.have.length(2);
  });

  it("an event is delivered only to endpoints that were registered before the event", async () => {
    const witness = await world.registerEndpoint(receiver.url);
    const { eventId } = await world.requestAppointment(witness.clinicId);
    await world.registerEndpoint(receiver.url, { clinicId: witness.clinicId });
    expect(await listDeliveries(eventId, witness)).to.have.length(1);
  });

  it("an event is delivered only to endpoints of applications with access to the event's branch", async () => {
    const branchId = randomUUID();
    const witness = await world.registerEndpoint(receiver.url);
    const { clinicId } = witness;
    const branchEndpoint = await world.registerEndpoint(receiver.url, { clinicId, branchIds: [branchId] });
    await world.registerEndpoint(receiver.url, { clinicId, branchIds: [randomUUID()] });
    const { eventId } = await world.requestAppointment(clinicId, { branchId });
    const rows = await listDeliveries(eventId, witness);
    expect(rows.map(({ endpoint_id }) => endpoint_id)).to.have.members([witness.endpointId, branchEndpoint.endpointId]);
  });

  it("an event is not delivered to endpoints of a revoked application or installation", async () => {
    const witness = await world.registerEndpoint(receiver.url);
    const { clinicId } = witness;
    const uninstalledEndpoint = await world.registerEndpoint(receiver.url, { clinicId });
    const revokedEndpoint = await world.registerEndpoint(receiver.url, { clinicId });
    const { installationId } = uninstalledEndpoint;
    await world.append(`installation-${installationId}`, {
      type: "InstallationRevoked",
      data: { installationId, reason: null },
    });
    await world.append(`partnerApplication-${revokedEndpoint.applicationId}`, {
      type: "ApplicationRevoked",
      data: { applicationId: revokedEndpoint.applicationId, reason: null },
    });
    const { eventId } = await world.requestAppointment(clinicId);
    expect(await listDeliveries(eventId, witness)).to.have.length(1);
  });

  it("a delivery to a disabled endpoint is skipped, and no delivery is created for a revoked endpoint", async () => {
    const witness = await world.registerEndpoint(receiver.url);
    const { clinicId } = witness;
    const disabledEndpoint = await world.registerEndpoint(receiver.url, { clinicId });
    const revokedEndpoint = await world.registerEndpoint(receiver.url, { clinicId });
    await world.append(`webhookEndpoint-${disabledEndpoint.endpointId}`, {
      type: "WebhookEndpointDisabled",
      data: { endpointId: disabledEndpoint.endpointId, reason: "operator" },
    });
    await world.append(`webhookEndpoint-${revokedEndpoint.endpointId}`, {
      type: "WebhookEndpointRevoked",
      data: { endpointId: revokedEndpoint.endpointId },
    });
    const { eventId } = await world.requestAppointment(clinicId);
    const rows = await listDeliveries(eventId, witness);
    expect(rows.map(({ endpoint_id }) => endpoint_id)).to.have.members([
      witness.endpointId,
      disabledEndpoint.endpointId,
    ]);
    expect((await world.readDelivery(eventId, disabledEndpoint))?.status).to.equal("skipped");
  });
});
