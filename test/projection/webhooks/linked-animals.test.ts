import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Role } from "../../../projection/roles/role.ts";
import type { AnimalConsentEvent } from "../../../shared/domain/events/consent.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { createWorld, type Endpoint } from "./world.ts";

describe("webhooks of an application with access to linked animals", () => {
  const world = useResource(createWorld);
  let currentProjectors: Role;
  let receiver: Receiver;
  let endpoint: Endpoint;
  /** Endpoint at the same clinic. Its application may see all animals. */
  let inHouseEndpoint: Endpoint;
  let animalId: string;

  before(async () => {
    currentProjectors = world.start.projectors();
    world.start.relay();
    world.start.webhooks({ retryScheduleSeconds: [2, 2, 2, 2, 2, 2], timeoutMs: 10_000 });
  });
  beforeEach(async () => {
    receiver = await startReceiver();
    animalId = randomUUID();
    endpoint = await world.registerEndpoint(`${receiver.url}/own`, { animalAccess: "linked" });
    const { clinicId } = endpoint;
    inHouseEndpoint = await world.registerEndpoint(`${receiver.url}/in-house`, { clinicId });
  });

  const appendConsent = (type: AnimalConsentEvent["type"], data: object = {}) =>
    world.append(`animalConsent-${animalId}`, {
      type,
      data: {
        ...{
          animalId,
          clinicId: endpoint.clinicId,
          applicationId: endpoint.applicationId,
          linkId: endpoint.endpointId,
        },
        ...data,
      },
    } as AnimalConsentEvent);
  const customerId = randomUUID();
  const link = (data: object = {}) =>
    appendConsent("AnimalLinked", { covers: "appointments_read", customerId, sandboxGeneration: 0, ...data });
  const withdraw = () => appendConsent("AnimalLinkWithdrawn", { requestedBy: "owner" });
  const awaitLink = (count: number) => world.awaitRows("animal_link", "animal_id = $1", [animalId], count);
  const requestAppointment = (ofAnimalId: string | null = animalId) =>
    world.requestAppointment(endpoint.clinicId, { animalId: ofAnimalId });
  const countRequests = () => receiver.requests.filter(({ path }) => path === "/own").length;
  /** Waits until a new event is delivered to `inHouseEndpoint`. Earlier events have then been matched too. */
  async function passLaterEvent(): Promise<void> {
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, inHouseEndpoint, "delivered");
  }

  it("only events about linked animals are delivered, and test events", async () => {
    await link();
    const hidden = [await requestAppointment(randomUUID()), await requestAppointment(null)];
    const { eventId } = await requestAppointment();
    const testId = randomUUID();
    const { endpointId, applicationId } = endpoint;
    const tested = { type: "WebhookEndpointTested", data: { endpointId, applicationId, testId } } as const;
    const scope = { environment: "production", clinicId: endpoint.clinicId } as const;
    await world.append(`webhookEndpoint-${testId}`, tested, scope);
    await world.awaitStatus(eventId, endpoint, "delivered");
    await world.awaitStatus(testId, endpoint, "delivered");
    for (const { eventId: hiddenId } of hidden) {
      await world.awaitStatus(hiddenId, inHouseEndpoint, "delivered");
      expect(await world.readDelivery(hiddenId, endpoint)).to.equal(undefined);
    }
    expect(countRequests()).to.equal(2);
  });

  it("events after a withdrawal, and after an erasure of the owner, are not delivered", async () => {
    await link();
    await withdraw();
    const { eventId } = await requestAppointment();
    await passLaterEvent();
    expect(await world.readDelivery(eventId, endpoint)).to.equal(undefined);
    const erasedId = randomUUID();
    await link({ customerId: erasedId });
    await world.append(`customer-${erasedId}`, {
      type: "CustomerDataErased",
      data: { customerId: erasedId, categories: ["contact"], cause: "request", reason: "Request 17" },
    });
    const { eventId: erasedEventId } = await requestAppointment();
    await passLaterEvent();
    expect(await world.readDelivery(erasedEventId, endpoint)).to.equal(undefined);
  });

  it("a withdrawal between a failed attempt and its retry cancels the delivery", async () => {
    receiver.setDefaultReaction({ status: 500 }, "/own");
    await link();
    const { eventId } = await requestAppointment();
    await world.awaitFirstResponse(eventId, endpoint, 500);
    await withdraw();
    await world.awaitStatus(eventId, endpoint, "cancelled");
    const requestCount = countRequests();
    await passLaterEvent();
    await passLaterEvent();
    expect(countRequests()).to.equal(requestCount);
  });

  it("an attempt that has started before the withdrawal ends, and has no retry", async () => {
    receiver.setDefaultReaction({ mode: "hold", status: 500 }, "/own");
    await link();
    const { eventId } = await requestAppointment();
    await eventually("the attempt", () => receiver.countHeldRequests() === 1);
    await withdraw();
    await awaitLink(0);
    receiver.release();
    const { attempts } = await world.awaitStatus(eventId, endpoint, "cancelled");
    expect(attempts.map(({ status_code }) => status_code)).to.eql([500]);
    expect(countRequests()).to.equal(1);
  });

  it("a withdrawal between match and claim cancels the delivery without an attempt", async () => {
    receiver.setDefaultReaction({ mode: "hold", status: 200 }, "/own");
    const options = { siblingEndpoint: endpoint, ordering: "appointment" as const };
    const orderedEndpoint = await world.registerEndpoint(`${receiver.url}/own`, options);
    await world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "operator" });
    await world.awaitEndpointStatus(endpoint, "disabled");
    await link();
    const { appointmentId, eventId } = await requestAppointment();
    await eventually("the attempt", () => receiver.countHeldRequests() === 1);
    // This delivery waits for the attempt about the same appointment.
    const heldEventId = await world.changeAppointment(appointmentId, "AppointmentConfirmed");
    await world.awaitStatus(heldEventId, orderedEndpoint, "pending");
    await withdraw();
    await awaitLink(0);
    receiver.release();
    await world.awaitStatus(eventId, orderedEndpoint, "delivered");
    const { attempts } = await world.awaitStatus(heldEventId, orderedEndpoint, "cancelled");
    expect(attempts).to.eql([]);
    expect(countRequests()).to.equal(1);
  });

  const revocations: [string, () => Promise<unknown>][] = [
    ["withdrawal", () => withdraw()],
    [
      "revocation of the installation",
      () => {
        const { installationId } = endpoint;
        const data = { installationId, reason: null };
        return world.append(`installation-${installationId}`, { type: "InstallationRevoked", data });
      },
    ],
  ];
  for (const [name, revoke] of revocations)
    it(`while the read models are behind a ${name}, no delivery is sent`, async () => {
      receiver.setDefaultReaction({ status: 500 }, "/own");
      await link();
      const { eventId } = await requestAppointment();
      await world.awaitFirstResponse(eventId, endpoint, 500);
      await world.stopRoles(currentProjectors);
      await revoke();
      await eventually("the revocation", async () => {
        const { rows } = await world.pool.query(
          `SELECT FROM webhooks.revocation r, ${READ_MODEL_SCHEMA}.checkpoint c WHERE r.position > c.position`,
        );
        return rows.length === 1;
      });
      const awaitPending = (sql: string) =>
        eventually(sql, async () => {
          const isPending = `delivery_id = $1 AND lease_expires_at IS NULL AND ${sql}`;
          const values = [deriveWebhookDeliveryId(eventId, endpoint.endpointId)];
          return (
            (await world.pool.query(`SELECT FROM webhooks.pending_delivery WHERE ${isPending}`, values)).rowCount === 1
          );
        });
      await awaitPending("true");
      const requestCount = countRequests();
      await awaitPending("next_attempt_at < now() - interval '2 s'");
      expect(countRequests()).to.equal(requestCount);
      currentProjectors = world.start.projectors();
      await world.awaitStatus(eventId, endpoint, "cancelled");
      expect(countRequests()).to.equal(requestCount);
    });

  it("replays after a withdrawal neither count nor change the delivery", async () => {
    await link();
    await world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "operator" });
    const { eventId } = await requestAppointment();
    await world.awaitStatus(eventId, endpoint, "skipped");
    await world.changeEndpoint(endpoint, "WebhookEndpointEnabled");
    await world.awaitEndpointStatus(endpoint, "active");
    await withdraw();
    const requestCount = countRequests();
    await world.requestReplay(eventId, endpoint);
    const until = new Date(Date.now() + 60_000).toISOString();
    const replayId = await world.requestReplays(endpoint, { until, statuses: ["failed", "skipped", "delivered"] });
    const [, end] = await eventually("the end of the replay", async () => {
      const events = await world.log.read(`webhookReplay-${replayId}`);
      return events.length === 2 && events;
    });
    expect(end!.data).to.deep.include({ replayedCount: 0, notReplayedCount: 0 });
    await passLaterEvent();
    await world.awaitStatus(eventId, endpoint, "skipped");
    expect(countRequests()).to.equal(requestCount);
  });

  it("narrowing the access to linked animals cancels pending deliveries about other animals", async () => {
    receiver.setDefaultReaction({ status: 500 }, "/in-house");
    const appointments = [await requestAppointment(), await requestAppointment(null)];
    for (const { eventId } of appointments) await world.awaitFirstResponse(eventId, inHouseEndpoint, 500);
    await world.append(`installation-${inHouseEndpoint.installationId}`, {
      type: "InstallationNarrowed",
      data: {
        installationId: inHouseEndpoint.installationId,
        scopes: ["webhooks:write"],
        branchIds: null,
        animalAccess: "linked",
      },
    });
    for (const { eventId } of appointments) await world.awaitStatus(eventId, inHouseEndpoint, "cancelled");
  });
});
