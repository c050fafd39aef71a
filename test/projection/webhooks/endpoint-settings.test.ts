import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { SigningKey } from "../../../shared/auth/signing-keys.ts";
import { createAsymmetricSigner, exportWebhookKeys } from "../../../shared/webhooks/asymmetric-signature.ts";
import { createSigningKey, verifyWithWhpk } from "../../support/asymmetric-keys.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../support/webhook-libraries.ts";
import { createWorld, type Endpoint } from "./world.ts";

describe("changed settings of an endpoint", () => {
  const world = useResource(createWorld);
  const receiver = useResource(startReceiver, "test");
  let signingKey: SigningKey;

  before(async () => {
    signingKey = await createSigningKey("key");
    const options = {
      retryScheduleSeconds: [0.2, 0.2, 0.2],
      signAsymmetrically: await createAsymmetricSigner([signingKey]),
    };
    world.startAll(options);
    // A second dispatcher, as in a second process.
    world.start.webhooks(options);
  });

  const awaitDelivered = (eventId: string, endpoint: Endpoint) => world.awaitStatus(eventId, endpoint, "delivered");
  const deliver = async (endpoint: Endpoint) =>
    awaitDelivered((await world.requestAppointment(endpoint.clinicId)).eventId, endpoint);
  async function sealHeaders(headers: Record<string, string>) {
    const entries = Object.entries(headers);
    return Promise.all(entries.map(async ([name, value]) => ({ name, encryptedValue: await world.seal(value) })));
  }

  it("a retry of a pending delivery has the changed URL, headers and format, and a valid signature", async () => {
    const endpoint = await world.registerEndpoint(`${receiver.url}/old`);
    receiver.setDefaultReaction({ status: 503, headers: { "Retry-After": "1" } }, "/old");
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitFirstResponse(eventId, endpoint, 503);
    const headers = await sealHeaders({ Authorization: "Bearer one", "x-api-key": "two" });
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", {
      url: `${receiver.url}/new`,
      headers,
      bodyFormat: "cloudevents",
    });
    await awaitDelivered(eventId, endpoint);
    // On a busy machine, more than one attempt can precede the change.
    const [firstRequest, lastRequest] = [receiver.requests[0], receiver.requests.at(-1)];
    expect(firstRequest!.headers).to.not.have.any.keys("authorization", "x-api-key");
    expect(lastRequest!.path).to.equal("/new");
    expect(lastRequest!.headers).to.include({
      authorization: "Bearer one",
      "x-api-key": "two",
      "content-type": "application/cloudevents+json",
      "webhook-id": firstRequest!.headers["webhook-id"],
    });
    expect(firstRequest!.headers["content-type"]).to.equal("application/json");
    expect(JSON.parse(lastRequest!.body)).to.include({ specversion: "1.0", id: JSON.parse(firstRequest!.body).id });
    expect(listAcceptingLibraries(endpoint.secret, lastRequest!)).to.deep.equal(webhookLibraryNames);
  });

  it("custom headers are sent until they are removed", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", {
      headers: await sealHeaders({ "X-Api-Key": "one" }),
    });
    await deliver(endpoint);
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { headers: [] });
    await deliver(endpoint);
    expect(receiver.requests.map(({ headers }) => headers["x-api-key"])).to.deep.equal(["one", undefined]);
  });

  it("a delivery whose custom headers cannot be decrypted is not sent", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", {
      headers: [{ name: "X-Api-Key", encryptedValue: "damaged" }],
    });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const { attempts } = await world.awaitStatus(eventId, endpoint, "failed");
    expect(new Set(attempts.map(({ error }) => error))).to.deep.equal(new Set(["not_signed"]));
    expect(receiver.requests).to.have.length(0);
  });

  it("a delivery has an asymmetric signature only if the endpoint asks for it", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    await deliver(endpoint);
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { asymmetricSignature: true });
    await deliver(endpoint);
    const [firstRequest, secondRequest] = receiver.requests;
    expect(firstRequest!.headers["webhook-signature"]).to.not.include("v1a,");
    const { headers, body } = secondRequest!;
    expect(listAcceptingLibraries(endpoint.secret, { body, headers })).to.deep.equal(webhookLibraryNames);
    const v1a = String(headers["webhook-signature"]).split(" ")[1]!;
    const text = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
    const { keys } = await exportWebhookKeys([signingKey]);
    expect(verifyWithWhpk(keys[0]!, text, v1a)).to.equal(true);
    expect(headers["x-service-signature"]).to.equal(headers["webhook-signature"]);
  });

  it("an endpoint receives only events of its branches, and only if the installation covers them", async () => {
    const [ownBranchId, otherBranchId, uncoveredBranchId] = [randomUUID(), randomUUID(), randomUUID()];
    const witness = await world.registerEndpoint(receiver.url);
    const { clinicId } = witness;
    const endpoint = await world.registerEndpoint(receiver.url, { clinicId, branchIds: [ownBranchId, otherBranchId] });
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { branchIds: [ownBranchId, uncoveredBranchId] });
    const eventIds: string[] = [];
    for (const branchId of [ownBranchId, otherBranchId, uncoveredBranchId])
      eventIds.push((await world.requestAppointment(clinicId, { branchId })).eventId);
    for (const eventId of eventIds) await awaitDelivered(eventId, witness);
    const deliveries = await Promise.all(eventIds.map((eventId) => world.readDelivery(eventId, endpoint)));
    expect(deliveries.map((delivery) => delivery !== undefined)).to.deep.equal([true, false, false]);
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { branchIds: null });
    const { eventId } = await world.requestAppointment(clinicId, { branchId: otherBranchId });
    await awaitDelivered(eventId, endpoint);
  });

  it("changed event types apply to later events, and deliveries that already exist are still sent", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.queueReactions({ status: 503, headers: { "Retry-After": "1" } });
    const { eventId, appointmentId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitFirstResponse(eventId, endpoint, 503);
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { events: ["appointment.updated"] });
    const { eventId: laterEventId } = await world.requestAppointment(endpoint.clinicId);
    const updateId = await world.changeAppointment(appointmentId, "AppointmentConfirmed");
    await awaitDelivered(updateId, endpoint);
    await awaitDelivered(eventId, endpoint);
    expect(await world.readDelivery(laterEventId, endpoint)).to.equal(undefined);
  });

  it("two dispatchers together keep the rate limit of an endpoint", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { rateLimitPerSecond: 10 });
    const eventIds: string[] = [];
    for (let count = 0; count < 30; count += 1)
      eventIds.push((await world.requestAppointment(endpoint.clinicId)).eventId);
    for (const eventId of eventIds) await awaitDelivered(eventId, endpoint);
    const { rows } = await world.pool.query<{ count: number; seconds: number }>(
      `SELECT count(*)::integer AS count, extract(epoch FROM max(started_at) - min(started_at))::float8 AS seconds
         FROM webhooks.attempt JOIN webhooks.delivery USING (delivery_id) WHERE endpoint_id = $1`,
      [endpoint.endpointId],
    );
    expect(rows[0]?.count).to.equal(30);
    // The limit permits 30 attempts within 2.8 seconds. The time of an attempt is that of its process, before the claim.
    expect(rows[0]?.seconds).to.be.above(2.3);
  });
});
