import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { agreeRateLimit } from "../../../command/operations/installation-operations.ts";
import { openDatabase } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { createSandboxAppointment, type Partner, type PartnerApi, startPartnerApi } from "../../support/partner-api.ts";
import { type ReceivedRequest, type Receiver, startReceiver } from "../../support/receiver.ts";

/** Headers of received webhooks that the API does not list: HTTP headers, timestamp, signature and custom headers. */
const UNLISTED_HEADERS = [
  "host",
  "connection",
  "content-length",
  "webhook-timestamp",
  "x-service-timestamp",
  "webhook-signature",
  "x-service-signature",
  "authorization",
];

describe("the deliveries of an endpoint", function () {
  this.timeout(60_000);
  let api: PartnerApi;
  let receiver: Receiver;
  let partner: Partner;
  let clinicHeaders: Record<string, string>;
  // biome-ignore lint/suspicious/noExplicitAny: the API's responses have no type in tests
  let sandbox: any;
  let endpointId: string;

  before(async () => {
    api = await startPartnerApi({
      projectionEnv: {
        ROLES: "projectors,relay,webhooks",
        WEBHOOK_ALLOW_LOOPBACK: "true",
        WEBHOOK_RETRY_SCHEDULE: "1",
      },
    });
    receiver = await startReceiver();
    partner = await api.createPartner();
    ({ sandbox } = (await partner.request("GET", "/sandbox")).body);
    clinicHeaders = { "X-SERVICE-Clinic-ID": sandbox.clinicId };
    const { applicationId } = partner;
    const limit = { applicationId, clinicId: sandbox.clinicId, rateLimitPerMinute: 10_000 };
    await agreeRateLimit(api.command.log, limit, createTestOperatorContext());
    endpointId = await createEndpoint("/main");
    await partner.request("PATCH", `/webhook-endpoints/${endpointId}`, {
      headers: clinicHeaders,
      body: { headers: { Authorization: "Bearer secret" }, operationalEvents: ["endpoint.disabled"] },
    });
  });

  async function createEndpoint(path: string): Promise<string> {
    const body = { url: `${receiver.url}${path}`, events: ["appointment.created", "appointment.updated"] };
    const response = await partner.request("POST", "/webhook-endpoints", { headers: clinicHeaders, body });
    expect(response.status).to.equal(201);
    return response.body.endpoint.id;
  }
  async function createAppointment(): Promise<string> {
    const response = await createSandboxAppointment(partner, sandbox, { notes: "Pâté 🐈" });
    expect(response.status).to.equal(201);
    return response.body.appointment.id;
  }
  const getDelivery = (deliveryId: string, headers = clinicHeaders) =>
    partner.request("GET", `/webhook-endpoints/${endpointId}/deliveries/${deliveryId}`, { headers });
  /** Waits until the endpoint has a delivery of the type with a final status. */
  const awaitFinished = (type: string, status = "delivered") =>
    eventually(`a ${status} ${type}`, async () => {
      const path = `/webhook-endpoints/${endpointId}/deliveries?type=${type}&status=${status}`;
      const { body } = await partner.request("GET", path, { headers: clinicHeaders });
      return body.deliveries[0] as { id: string; createdAt: string } | undefined;
    });

  /** Checks that the API shows the requests of a delivery as the receiver got them. */
  async function expectSameRequests(deliveryId: string): Promise<void> {
    const requests = receiver.listDeliveryRequests(deliveryId);
    const { delivery } = (await getDelivery(deliveryId)).body;
    expect(delivery.attempts).to.have.length(requests.length);
    for (const [index, { body, headers }] of requests.entries()) {
      expect(delivery.request.body).to.equal(body);
      expect(String(Buffer.byteLength(delivery.request.body))).to.equal(headers["content-length"]);
      expect(String(delivery.attempts[index].timestamp)).to.equal(headers["webhook-timestamp"]);
      expect(toLowerCaseNames(delivery.request.headers)).to.deep.equal(selectListedHeaders({ headers }));
    }
  }
  const toLowerCaseNames = (headers: Record<string, string>) =>
    Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const selectListedHeaders = ({ headers }: Pick<ReceivedRequest, "headers">) =>
    Object.fromEntries(Object.entries(headers).filter(([name]) => !UNLISTED_HEADERS.includes(name)));

  it("a delivery contains the exact body and headers that the receiver got, and the response to every attempt", async () => {
    receiver.queueReactions({ status: 500, body: "try again" });
    const appointmentId = await createAppointment();
    const { id } = await awaitFinished("appointment.created");
    const { status, body } = await getDelivery(id);
    expect(status).to.equal(200);
    const { delivery } = body;
    expect(delivery).to.include({ id, appointmentId, type: "appointment.created", status: "delivered" });
    const [first, second] = delivery.attempts;
    expect([first.statusCode, first.answer, second.statusCode]).to.deep.equal([500, "try again", 200]);
    expect(delivery.request.customHeaderNames).to.deep.equal(["Authorization"]);
    expect(JSON.stringify(body)).not.to.include("Bearer secret").and.not.to.include("v1,");
    await expectSameRequests(id);
  });

  it("the body of each type of event equals the body that the receiver got", async () => {
    const appointmentId = await createAppointment();
    const stream = `appointment-${appointmentId}`;
    const [requested] = await api.command.log.read(stream);
    const id = randomUUID();
    const event = { type: "AppointmentConfirmed" as const, data: { appointmentId } };
    await api.command.log.append(stream, 0n, [{ id, event, metadata: requested!.metadata }]);
    await partner.request("POST", `/webhook-endpoints/${endpointId}/test`, { headers: clinicHeaders });
    const otherEndpointId = await createEndpoint("/other");
    await partner.request("POST", `/webhook-endpoints/${otherEndpointId}/disable`, { headers: clinicHeaders });
    for (const type of ["appointment.created", "appointment.updated", "endpoint.test", "endpoint.disabled"]) {
      await expectSameRequests((await awaitFinished(type)).id);
    }
  });

  it("a pending delivery has a body, and a delivery whose event is missing has none", async () => {
    receiver.queueReactions({ status: 503, headers: { "Retry-After": "3600" } });
    await createAppointment();
    const { id } = await awaitFinished("appointment.created", "pending");
    await eventually("the first attempt", async () => receiver.listDeliveryRequests(id).length === 1);
    await expectSameRequests(id);
    const admin = openDatabase(api.database.urls.projection);
    await admin.query("UPDATE webhooks.delivery SET event_id = $2 WHERE delivery_id = $1", [id, randomUUID()]);
    expect((await getDelivery(id)).body.delivery.request.body).to.equal(null);
  });

  it("a request with the delivery of another endpoint gets 404", async () => {
    const { id } = await awaitFinished("appointment.created");
    const otherEndpointId = await createEndpoint("/unused");
    const path = `/webhook-endpoints/${otherEndpointId}/deliveries/${id}`;
    const { status, body } = await partner.request("GET", path, { headers: clinicHeaders });
    expect([status, body.error]).to.deep.equal([404, "webhook_delivery_not_found"]);
  });

  describe("replays", () => {
    const requestReplay = (body: object, key: string = randomUUID(), sender = partner, headers = clinicHeaders) =>
      sender.request("POST", `/webhook-endpoints/${endpointId}/replays`, {
        headers: { ...headers, "Idempotency-Key": key },
        body,
      });
    const getReplay = (replayId: string, sender = partner, headers = clinicHeaders) =>
      sender.request("GET", `/webhook-endpoints/${endpointId}/replays/${replayId}`, { headers });
    const awaitCompleted = (replayId: string) =>
      eventually("the replay", async () => {
        const { replay } = (await getReplay(replayId)).body;
        return replay.status === "completed" && replay;
      });

    it("a replay since a time sends failed deliveries again, and reports its progress", async () => {
      receiver.setDefaultReaction({ status: 500 }, "/main");
      await createAppointment();
      const { id, createdAt } = await awaitFinished("appointment.created", "failed");
      receiver.setDefaultReaction({}, "/main");
      const { status, body } = await requestReplay({ since: createdAt });
      expect(status).to.equal(202);
      const { until, requestedAt, ...replay } = body.replay;
      expect(until).to.equal(requestedAt);
      expect(replay).to.deep.equal({
        id: replay.id,
        endpointId,
        since: createdAt,
        statuses: ["failed", "skipped"],
        deliveryIds: null,
        status: "pending",
        replayedCount: 0,
        notReplayedCount: 0,
        finishedAt: null,
      });
      const completedReplay = await awaitCompleted(replay.id);
      expect(completedReplay).to.include({ replayedCount: 1, notReplayedCount: 0, since: createdAt, until });
      expect(completedReplay.finishedAt).to.be.a("string");
      await eventually("the delivery", async () => (await getDelivery(id)).body.delivery.status === "delivered");
      await expectSameRequests(id);
    });

    it("a delivered delivery is sent again with the same body if the request contains its id", async () => {
      const { id } = await awaitFinished("appointment.created");
      const requestCount = receiver.listDeliveryRequests(id).length;
      const unknownId = randomUUID();
      const { status, body } = await requestReplay({ deliveryIds: [id, unknownId, id] });
      expect(status).to.equal(202);
      expect(body.replay.deliveryIds).to.deep.equal([id, unknownId]);
      expect(await awaitCompleted(body.replay.id)).to.include({ replayedCount: 1, notReplayedCount: 1 });
      await eventually("the request", async () => receiver.listDeliveryRequests(id).length === requestCount + 1);
      await eventually("the delivery", async () => (await getDelivery(id)).body.delivery.status === "delivered");
      await expectSameRequests(id);
      // The contract permits the replay of one delivery only if it failed or was skipped.
      const path = `/webhook-endpoints/${endpointId}/deliveries/${id}/replay`;
      expect((await partner.request("POST", path, { headers: clinicHeaders })).status).to.equal(409);
    });

    it("a repeated request returns the first response, and another request with the same key returns 409", async () => {
      const key = randomUUID();
      const body = { since: "2020-01-01T00:00:00Z", statuses: ["skipped", "skipped"] };
      const first = await requestReplay(body, key);
      expect(first.body.replay.statuses).to.deep.equal(["skipped"]);
      const second = await requestReplay({ ...body, since: "2020-01-01T02:00:00+02:00" }, key);
      expect([second.status, second.text]).to.deep.equal([202, first.text]);
      expect(first.headers.get("Idempotent-Replayed")).to.equal(null);
      expect(second.headers.get("Idempotent-Replayed")).to.equal("true");
      const conflict = await requestReplay({ ...body, until: "2021-01-01T00:00:00Z" }, key);
      expect([conflict.status, conflict.body.error]).to.deep.equal([409, "idempotency_conflict"]);
    });

    it("an invalid request returns 400 and names every invalid field", async () => {
      const since = "2026-01-01T00:00:00Z";
      for (const [body, details] of [
        [{}, { since: "is missing; give either since or deliveryIds" }],
        [{ since, until: since }, { until: "must be later than since" }],
        [{ since, deliveryIds: [randomUUID()] }, { since: "cannot be combined with deliveryIds" }],
        [{ deliveryIds: [] }, { deliveryIds: "must contain at least one id" }],
        [{ since, statuses: ["pending"] }, { "statuses.0": "must be one of failed, skipped, delivered" }],
      ] as const) {
        const response = await requestReplay(body);
        expect([response.status, response.body.error], JSON.stringify(body)).to.deep.equal([400, "validation_failed"]);
        const expectedDetails = Object.entries(details).map(([path, message]) => ({ path, message }));
        expect(response.body.details).to.deep.equal(expectedDetails);
      }
      const { status, body } = await requestReplay({ since }, "short");
      expect([status, body.details[0].path]).to.deep.equal([400, "header Idempotency-Key"]);
    });
  });
});
