import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../support/webhook-libraries.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

describe("the lifecycle of a delivery", () => {
  let world: World;
  let receiver: Receiver;
  /** Milliseconds by which the clock of the webhooks role is ahead. */
  let clockAheadMs = 0;

  before(async () => {
    world = await createWorld();
    world.startAll({ clock: () => Date.now() + clockAheadMs });
  });
  after(() => world.close());
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(async () => {
    clockAheadMs = 0;
    await receiver.close();
  });

  const appendEndpointEvent = ({ endpointId }: Endpoint, type: "WebhookEndpointEnabled" | "WebhookEndpointRevoked") =>
    world.append(`webhookEndpoint-${endpointId}`, { type, data: { endpointId } });
  const disableEndpoint = ({ endpointId }: Endpoint) =>
    world.append(`webhookEndpoint-${endpointId}`, {
      type: "WebhookEndpointDisabled",
      data: { endpointId, reason: "operator" },
    });
  /** Rotates the endpoint's secret. Deliveries are also signed with the former secret for `overlap` milliseconds. */
  async function rotateSecret({ endpointId }: Endpoint, overlapMs: number): Promise<string> {
    const secret = `whsec_${randomBytes(32).toString("base64")}`;
    const data = {
      endpointId,
      secretId: randomUUID(),
      encryptedSecret: await world.seal(secret),
      previousExpiresAt: new Date(Date.now() + overlapMs).toISOString(),
    };
    await world.append(`webhookEndpoint-${endpointId}`, { type: "WebhookSecretRotated", data });
    return secret;
  }
  const requestReplay = (eventId: string, { endpointId }: Endpoint) => {
    const deliveryId = deriveWebhookDeliveryId(eventId, endpointId);
    return world.append(`webhookDelivery-${deliveryId}`, {
      type: "WebhookDeliveryReplayRequested",
      data: { deliveryId, endpointId },
    });
  };
  const readFactTypes = async (eventId: string, { endpointId }: Endpoint) => {
    const events = await world.log.read(`webhookDelivery-${deriveWebhookDeliveryId(eventId, endpointId)}`);
    return events.map(({ type }) => type);
  };
  const awaitFacts = (eventId: string, endpoint: Endpoint, ...types: string[]) =>
    eventually(
      `the facts ${types}`,
      async () => (await readFactTypes(eventId, endpoint)).join() === types.join() || undefined,
    );
  const awaitStatus = (eventId: string, endpoint: Endpoint, wantedStatus: string) =>
    world.waitForDelivery(eventId, endpoint, ({ status }) => status === wantedStatus);
  const awaitEndpointStatus = (endpoint: Endpoint, status: string) =>
    eventually(`the endpoint ${status}`, async () => {
      const { rows } = await world.pool.query<{ status: string; disabled_reason: string | null }>(
        `SELECT status, disabled_reason FROM ${READ_MODEL_SCHEMA}.webhook_endpoint WHERE endpoint_id = $1`,
        [endpoint.endpointId],
      );
      return rows[0]?.status === status && rows[0];
    });

  it("a failed delivery can be replayed several times", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.setDefaultReaction({ status: 500 });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await awaitFacts(eventId, endpoint, "WebhookDeliveryFailed");
    await requestReplay(eventId, endpoint);
    await awaitFacts(
      eventId,
      endpoint,
      ...["WebhookDeliveryFailed", "WebhookDeliveryReplayRequested", "WebhookDeliveryFailed"],
    );
    receiver.setDefaultReaction({});
    await requestReplay(eventId, endpoint);
    const { attempts } = await awaitStatus(eventId, endpoint, "delivered");
    expect(attempts.map(({ status_code }) => status_code)).to.deep.equal([...Array(8).fill(500), 200]);
    expect(attempts.map(({ number }) => number)).to.deep.equal([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(new Set(receiver.requests.map(({ headers }) => headers["webhook-id"])).size).to.equal(1);
  });

  it("a delivery is skipped while the endpoint is disabled, and can be replayed afterwards", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    await disableEndpoint(endpoint);
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await awaitStatus(eventId, endpoint, "skipped");
    await awaitFacts(eventId, endpoint, "WebhookDeliverySkipped");
    expect(receiver.requests).to.have.length(0);
    await requestReplay(eventId, endpoint);
    await awaitFacts(
      eventId,
      endpoint,
      ...["WebhookDeliverySkipped", "WebhookDeliveryReplayRequested", "WebhookDeliverySkipped"],
    );
    await appendEndpointEvent(endpoint, "WebhookEndpointEnabled");
    await requestReplay(eventId, endpoint);
    expect((await awaitStatus(eventId, endpoint, "delivered")).attempts).to.have.length(1);
  });

  it("a delivery is skipped if the endpoint is disabled between attempts", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.setDefaultReaction({ status: 503, headers: { "Retry-After": "3600" } });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.waitForDelivery(eventId, endpoint, ({ attempts }) => attempts[0]?.status_code === 503);
    await disableEndpoint(endpoint);
    expect((await awaitStatus(eventId, endpoint, "skipped")).next_attempt_at).to.equal(null);
    await awaitFacts(eventId, endpoint, "WebhookDeliverySkipped");
  });

  it("a delivery is cancelled if the endpoint is revoked between attempts", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.setDefaultReaction({ status: 503, headers: { "Retry-After": "3600" } });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.waitForDelivery(eventId, endpoint, ({ attempts }) => attempts[0]?.status_code === 503);
    await appendEndpointEvent(endpoint, "WebhookEndpointRevoked");
    await awaitStatus(eventId, endpoint, "cancelled");
    expect(receiver.requests).to.have.length(1);
    expect(await readFactTypes(eventId, endpoint)).to.deep.equal([]);
  });

  it("a delivery is cancelled if the installation is revoked between attempts", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.setDefaultReaction({ status: 503, headers: { "Retry-After": "3600" } });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.waitForDelivery(eventId, endpoint, ({ attempts }) => attempts[0]?.status_code === 503);
    const { installationId } = endpoint;
    await world.append(`installation-${installationId}`, {
      type: "InstallationRevoked",
      data: { installationId, reason: null },
    });
    await awaitStatus(eventId, endpoint, "cancelled");
  });

  it("a retry waits as long as the Retry-After header of the previous response requests", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.queueReactions({ status: 429, headers: { "Retry-After": "2" } });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await awaitStatus(eventId, endpoint, "delivered");
    const [firstRequest, secondRequest] = receiver.requests;
    expect(secondRequest!.receivedAtMs - firstRequest!.receivedAtMs).to.be.at.least(1_990);
  });

  it("a response with status 410 disables the endpoint", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.setDefaultReaction({ status: 410 });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    expect((await awaitStatus(eventId, endpoint, "failed")).attempts).to.have.length(1);
    expect(await awaitEndpointStatus(endpoint, "disabled")).to.deep.include({ disabled_reason: "gone" });
    const { eventId: nextEventId } = await world.requestAppointment(endpoint.clinicId);
    await awaitStatus(nextEventId, endpoint, "skipped");
    expect(receiver.requests).to.have.length(1);
  });

  it("a delivery is signed with every secret that has not expired", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const secondSecret = await rotateSecret(endpoint, 60_000);
    const thirdSecret = await rotateSecret(endpoint, 120_000);
    const countAcceptingLibraries = async () => {
      await awaitStatus((await world.requestAppointment(endpoint.clinicId)).eventId, endpoint, "delivered");
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

  it("after a secret rotation without an overlap, deliveries are signed only with the new secret", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const newSecret = await rotateSecret(endpoint, 0);
    await awaitStatus((await world.requestAppointment(endpoint.clinicId)).eventId, endpoint, "delivered");
    expect(listAcceptingLibraries(newSecret, receiver.requests[0]!)).to.deep.equal(webhookLibraryNames);
    expect(listAcceptingLibraries(endpoint.secret, receiver.requests[0]!)).to.deep.equal([]);
  });

  it("each attempt at a delivery is signed with the time of the attempt", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.queueReactions({ status: 503, headers: { "Retry-After": "60" } });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.waitForDelivery(eventId, endpoint, ({ attempts }) => attempts[0]?.status_code === 503);
    clockAheadMs = 120_000;
    await awaitStatus(eventId, endpoint, "delivered");
    const [firstHeaders, secondHeaders] = receiver.requests.map(({ headers }) => headers);
    const secondsBetween = Number(secondHeaders!["webhook-timestamp"]) - Number(firstHeaders!["webhook-timestamp"]);
    expect(secondsBetween).to.be.within(120, 130);
    expect(secondHeaders!["webhook-signature"]).not.to.equal(firstHeaders!["webhook-signature"]);
    expect(secondHeaders!["webhook-id"]).to.equal(firstHeaders!["webhook-id"]);
    for (const request of receiver.requests) {
      expect(listAcceptingLibraries(endpoint.secret, request)).to.deep.equal(webhookLibraryNames);
    }
  });

  it("each attempt records the status, the error and the body of the receiver's response", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.queueReactions(
      { mode: "close" },
      { mode: "drip" },
      { status: 302, body: "moved" },
      { body: "\u0000fine" },
    );
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const { attempts } = await awaitStatus(eventId, endpoint, "delivered");
    expect(attempts.map(({ status_code, error }) => [status_code, error])).to.deep.equal([
      [null, "connection_lost"],
      [200, "timeout"],
      [302, null],
      [200, null],
    ]);
    expect(attempts.map(({ answer }) => answer)).to.deep.include.members(["moved", "fine", null]);
    for (const { duration_ms } of attempts) expect(duration_ms).to.be.within(0, 2_000);
  });

  it("a delivery and its attempts are deleted after 30 days", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await awaitStatus(eventId, endpoint, "delivered");
    const id = deriveWebhookDeliveryId(eventId, endpoint.endpointId);
    await world.pool.query(
      "UPDATE webhooks.delivery SET created_at = now() - interval '31 days' WHERE delivery_id = $1",
      [id],
    );
    const otherRole = world.start.webhooks();
    await eventually("the deletion", async () => (await world.readDelivery(eventId, endpoint)) === undefined);
    await world.stopRoles(otherRole);
    const { rowCount } = await world.pool.query("SELECT FROM webhooks.attempt WHERE delivery_id = $1", [id]);
    expect(rowCount).to.equal(0);
  });
});
