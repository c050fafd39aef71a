import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { eventually } from "../../support/eventually.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../support/webhook-libraries.ts";
import { createWorld, type Endpoint } from "./world.ts";

const DAY_MS = 24 * 60 * 60_000;

describe("the lifecycle of a delivery", () => {
  const world = useResource(createWorld);
  const receiver = useResource(startReceiver, "test");
  /** Milliseconds by which the clock of the webhooks role is ahead. */
  let clockAheadMs = 0;

  before(() => world.startAll({ clock: () => Date.now() + clockAheadMs }));
  afterEach(async () => {
    clockAheadMs = 0;
  });

  const disableEndpoint = (endpoint: Endpoint) =>
    world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "operator" });
  /**
   * Rotates the endpoint's secret. For `overlapMs`, deliveries are also signed with the former secret.
   *
   * @returns the secret
   */
  async function rotateSecret(endpoint: Endpoint, overlapMs: number): Promise<string> {
    const secret = `whsec_${randomBytes(32).toString("base64")}`;
    await world.changeEndpoint(endpoint, "WebhookSecretRotated", {
      secretId: randomUUID(),
      encryptedSecret: await world.seal(secret),
      previousExpiresAt: new Date(Date.now() + overlapMs).toISOString(),
    });
    return secret;
  }
  /** Requests an appointment and waits for its delivery. */
  const deliver = async (endpoint: Endpoint) => {
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "delivered");
  };
  /** Requests an appointment. Waits until its receiver has asked for a retry after an hour. @returns the event's id */
  const deferDelivery = async (endpoint: Endpoint) => {
    receiver.setDefaultReaction({ status: 503, headers: { "Retry-After": "3600" } });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitFirstResponse(eventId, endpoint, 503);
    return eventId;
  };

  it("a failed delivery can be replayed several times, with the same id and body", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.setDefaultReaction({ status: 500, body: "broken" });
    const { eventId, appointmentId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "failed");
    // Replays send the state after the event, not the latest state.
    await world.changeAppointment(appointmentId, "AppointmentConfirmed");
    const deliveryId = await world.requestReplay(eventId, endpoint);
    await world.waitForDelivery(
      eventId,
      endpoint,
      ({ status, attempts }) => status === "failed" && attempts.length === 8,
    );
    receiver.setDefaultReaction({});
    await world.requestReplay(eventId, endpoint);
    const { attempts } = await world.awaitStatus(eventId, endpoint, "delivered");
    expect(attempts.map(({ status_code }) => status_code)).to.deep.equal([...Array(8).fill(500), 200]);
    expect(attempts.map(({ number }) => number)).to.deep.equal([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const requests = receiver.listDeliveryRequests(deliveryId);
    expect(requests).to.have.length(9);
    expect(new Set(requests.map(({ body }) => body)).size).to.equal(1);
    for (const request of requests)
      expect(listAcceptingLibraries(endpoint.secret, request)).to.deep.equal(webhookLibraryNames);
  });

  it("a delivery is skipped while the endpoint is disabled, and can be replayed afterwards", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    await disableEndpoint(endpoint);
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "skipped");
    expect(receiver.requests).to.have.length(0);
    await world.changeEndpoint(endpoint, "WebhookEndpointEnabled");
    await world.awaitEndpointStatus(endpoint, "active");
    await world.requestReplay(eventId, endpoint);
    expect((await world.awaitStatus(eventId, endpoint, "delivered")).attempts).to.have.length(1);
  });

  it("a delivery is skipped if the endpoint is disabled between attempts", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const eventId = await deferDelivery(endpoint);
    await disableEndpoint(endpoint);
    expect((await world.awaitStatus(eventId, endpoint, "skipped")).next_attempt_at).to.equal(null);
  });

  const revocations: [string, (endpoint: Endpoint) => Promise<unknown>][] = [
    ["endpoint", (endpoint) => world.changeEndpoint(endpoint, "WebhookEndpointRevoked")],
    [
      "installation",
      ({ installationId }) =>
        world.append(`installation-${installationId}`, {
          type: "InstallationRevoked",
          data: { installationId, reason: null },
        }),
    ],
  ];
  for (const [name, revoke] of revocations)
    it(`a delivery is cancelled if the ${name} is revoked between attempts`, async () => {
      const endpoint = await world.registerEndpoint(receiver.url);
      const eventId = await deferDelivery(endpoint);
      await revoke(endpoint);
      await world.awaitStatus(eventId, endpoint, "cancelled");
      expect(receiver.requests).to.have.length(1);
    });

  it("a delivery is signed with every secret that has not expired", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const secondSecret = await rotateSecret(endpoint, 60_000);
    const thirdSecret = await rotateSecret(endpoint, 120_000);
    const countAcceptingLibraries = async () => {
      await deliver(endpoint);
      return [endpoint.secret, secondSecret, thirdSecret].map(
        (secret) => listAcceptingLibraries(secret, receiver.requests.at(-1)!).length,
      );
    };
    const libraryCount = webhookLibraryNames.length;
    expect(await countAcceptingLibraries()).to.deep.equal([libraryCount, libraryCount, libraryCount]);
    clockAheadMs = 61_000;
    expect(await countAcceptingLibraries()).to.deep.equal([0, libraryCount, libraryCount]);
    clockAheadMs = 121_000;
    expect(await countAcceptingLibraries()).to.deep.equal([0, 0, libraryCount]);
  });

  it("each attempt at a delivery is signed with the time of the attempt", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.queueReactions({ status: 503, headers: { "Retry-After": "60" } });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitFirstResponse(eventId, endpoint, 503);
    clockAheadMs = 120_000;
    await world.awaitStatus(eventId, endpoint, "delivered");
    const [firstHeaders, secondHeaders] = receiver.requests.map(({ headers }) => headers);
    const secondsBetween = Number(secondHeaders!["webhook-timestamp"]) - Number(firstHeaders!["webhook-timestamp"]);
    expect(secondsBetween).to.be.within(120, 130);
    expect(secondHeaders!["webhook-signature"]).not.to.equal(firstHeaders!["webhook-signature"]);
    expect(secondHeaders!["webhook-id"]).to.equal(firstHeaders!["webhook-id"]);
    for (const request of receiver.requests)
      expect(listAcceptingLibraries(endpoint.secret, request)).to.deep.equal(webhookLibraryNames);
  });

  it("each attempt records the status, the error and the body of the receiver's response", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.queueReactions(
      { mode: "close" },
      { mode: "hang" },
      { status: 302, body: "moved" },
      { body: "\u0000fine" },
    );
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const { attempts } = await world.awaitStatus(eventId, endpoint, "delivered");
    expect(attempts.map(({ status_code, error }) => [status_code, error])).to.deep.equal([
      [null, "connection_lost"],
      [null, "timeout"],
      [302, null],
      [200, null],
    ]);
    expect(attempts.map(({ answer }) => answer)).to.deep.include.members(["moved", "fine", null]);
    for (const { duration_ms } of attempts) expect(duration_ms).to.be.within(0, 2_000);
  });

  it("a delivery and its attempts are deleted after 30 days, if it ended more than seven days ago", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const { eventId: recentId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "delivered");
    await world.awaitStatus(recentId, endpoint, "delivered");
    const id = deriveWebhookDeliveryId(eventId, endpoint.endpointId);
    const setAges =
      "UPDATE webhooks.delivery SET created_at = now() - interval '31 days', updated_at = $2 WHERE event_id = $1";
    await world.pool.query(setAges, [eventId, new Date(Date.now() - 8 * DAY_MS)]);
    await world.pool.query(setAges, [recentId, new Date(Date.now() - 6 * DAY_MS)]);
    const otherRole = world.start.webhooks();
    await eventually("the deletion", async () => (await world.readDelivery(eventId, endpoint)) === undefined);
    await world.stopRoles(otherRole);
    const { rowCount } = await world.pool.query("SELECT FROM webhooks.attempt WHERE delivery_id = $1", [id]);
    expect(rowCount).to.equal(0);
    expect(await world.readDelivery(recentId, endpoint)).not.to.equal(undefined);
  });

  it("old deliveries are deleted although another step of the retention fails", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "delivered");
    await world.pool.query(
      `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
       CREATE TRIGGER refuse BEFORE DELETE ON webhooks.endpoint_rate_limit FOR EACH STATEMENT EXECUTE FUNCTION refuse()`,
    );
    await world.pool.query(
      "UPDATE webhooks.delivery SET created_at = now() - interval '31 days', updated_at = now() - interval '31 days'",
    );
    const otherRole = world.start.webhooks();
    await eventually("the deletion", async () => (await world.readDelivery(eventId, endpoint)) === undefined);
    await world.stopRoles(otherRole);
  });
});
