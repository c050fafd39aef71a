import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { detailDefaults } from "../../../shared/domain/events/appointment.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { createWorld, type Endpoint, type EndpointOptions } from "./world.ts";

describe("endpoints that get an event", () => {
  const world = useResource(createWorld);
  let receiver: Receiver;

  before(async () => {
    world.startAll();
    receiver = await startReceiver();
  });

  /**
   * Returns the ids of the endpoints that get an event. First waits for the delivery of a later event to
   * `witnessEndpoint`.
   */
  const listEndpointIds = async (eventId: string, witnessEndpoint: Endpoint) => {
    const { eventId: lastEventId } = await world.requestAppointment(witnessEndpoint.clinicId);
    await world.awaitStatus(lastEventId, witnessEndpoint, "delivered");
    const { rows } = await world.pool.query<{ endpoint_id: string }>(
      "SELECT endpoint_id FROM webhooks.delivery WHERE event_id = $1",
      [eventId],
    );
    return rows.map(({ endpoint_id }) => endpoint_id);
  };

  it("an event is delivered once to each endpoint with access to its clinic, environment and branch that wants its type", async () => {
    const branchId = randomUUID();
    const witness = await world.registerEndpoint(receiver.url);
    const { clinicId } = witness;
    const register = (options: Partial<EndpointOptions> = {}) =>
      world.registerEndpoint(receiver.url, { clinicId, ...options });
    const named: Record<string, Endpoint> = {
      witness,
      "same clinic": await register(),
      "same branch": await register({ branchIds: [branchId] }),
      "only changes": await register({ events: ["appointment.updated"] }),
      "other clinic": await world.registerEndpoint(receiver.url),
      "other branch": await register({ branchIds: [randomUUID()] }),
      "other environment": await register({ environment: "sandbox" }),
    };
    const { eventId, appointmentId } = await world.requestAppointment(clinicId, { branchId });
    const changedEventId = await world.changeAppointment(appointmentId, "AppointmentConfirmed");
    named["registered later"] = await register();
    const listNames = async (id: string) => {
      const entries = Object.entries(named).map(([name, { endpointId }]) => [endpointId, name]);
      const nameById = new Map(entries as [string, string][]);
      return (await listEndpointIds(id, witness)).map((endpointId) => nameById.get(endpointId));
    };
    expect(await listNames(eventId)).to.have.members(["witness", "same clinic", "same branch"]);
    expect(await listNames(changedEventId)).to.have.members(["witness", "same clinic", "same branch", "only changes"]);
  });

  it("an imported appointment is not sent, but later changes of the appointment are sent as updates", async () => {
    const witness = await world.registerEndpoint(receiver.url);
    const { clinicId } = witness;
    const appointmentId = randomUUID();
    const scheduledAt = "2030-05-01T09:00:00.000Z";
    const importedEventId = await world.append(
      `appointment-${appointmentId}`,
      {
        type: "AppointmentImported",
        data: {
          ...detailDefaults,
          appointmentId,
          clinicId,
          branchId: randomUUID(),
          scheduledAt,
          status: "requested",
          requestedAt: null,
          statusAt: null,
          requestHash: "hash",
          textHash: null,
        },
      },
      { environment: "production", clinicId },
    );
    const changedEventId = await world.changeAppointment(appointmentId, "AppointmentConfirmed");
    await world.awaitStatus(changedEventId, witness, "delivered");
    const body = receiver.requests
      .map((request) => JSON.parse(request.body))
      .find(({ data }) => data.appointment?.id === appointmentId);
    expect(body).to.include({ type: "appointment.updated", clinicId });
    expect(body.data.appointment).to.include({ status: "confirmed", scheduledAt });
    expect(await listEndpointIds(importedEventId, witness)).to.deep.equal([]);
  });

  it("an event is not delivered to a revoked endpoint, nor to endpoints of a revoked application or installation", async () => {
    const witness = await world.registerEndpoint(receiver.url);
    const { clinicId } = witness;
    const [{ installationId }, { applicationId }, revokedEndpoint] = [
      await world.registerEndpoint(receiver.url, { clinicId }),
      await world.registerEndpoint(receiver.url, { clinicId }),
      await world.registerEndpoint(receiver.url, { clinicId }),
    ];
    await world.append(`installation-${installationId}`, {
      type: "InstallationRevoked",
      data: { installationId, reason: null },
    });
    await world.append(`partnerApplication-${applicationId}`, {
      type: "ApplicationRevoked",
      data: { applicationId, reason: null },
    });
    await world.changeEndpoint(revokedEndpoint, "WebhookEndpointRevoked");
    const { eventId } = await world.requestAppointment(clinicId);
    expect(await listEndpointIds(eventId, witness)).to.deep.equal([witness.endpointId]);
  });
});
