import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { findExpiringSecrets } from "../../../projection/webhooks/record/record-events.ts";
import type { OperationalEventType } from "../../../shared/domain/events/partner.ts";
import {
  endpointDisabledBody,
  endpointFailingBody,
  secretExpiringBody,
} from "../../../shared/partner-api/webhook-body.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../support/webhook-libraries.ts";
import { createWorld, type Endpoint } from "./world.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const schemas = {
  "endpoint.failing": endpointFailingBody,
  "endpoint.disabled": endpointDisabledBody,
  "secret.expiring": secretExpiringBody,
};

describe("operational events", () => {
  const world = useResource(createWorld);
  let receiver: Receiver;
  /** Milliseconds by which the clock of the webhooks role is ahead. */
  let clockAheadMs = 0;
  const startWebhooks = () =>
    world.start.webhooks({ clock: () => Date.now() + clockAheadMs, retryScheduleSeconds: [] });

  before(async () => {
    world.start.projectors();
    world.start.relay();
    startWebhooks();
  });
  beforeEach(async () => {
    clockAheadMs = 0;
    receiver = await startReceiver();
  });

  /** Registers an endpoint that receives only the given operational events. @param path path of its URL */
  async function registerObserver(path: string, siblingEndpoint: Endpoint, ...types: OperationalEventType[]) {
    const endpoint = await world.registerEndpoint(`${receiver.url}${path}`, { siblingEndpoint });
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { events: [], operationalEvents: types });
    return endpoint;
  }
  const listRequests = (path: string) => receiver.requests.filter((request) => request.path === path);
  /** Returns the operational events that arrived at a path. Checks them against their schemas. */
  const listBodies = (path: string) =>
    listRequests(path)
      .map(({ body }) => JSON.parse(body))
      .filter(({ type }) => type in schemas)
      .map((body) => schemas[body.type as OperationalEventType].parse(body));
  const awaitBody = (path: string, count = 1) =>
    eventually(`event ${count} at ${path}`, async () => listBodies(path)[count - 1]);
  /** Sends one more event to the endpoint and waits for its outcome. Earlier events have then been processed too. */
  async function deliverAppointment(endpoint: Endpoint, outcome: "failed" | "delivered"): Promise<void> {
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, outcome);
  }
  async function listReportTypes({ endpointId }: Endpoint) {
    const types = await world.listEventTypes(`webhookEndpoint-${endpointId}`);
    return types.filter((type) => type.endsWith("Reported"));
  }

  it("endpoint.failing is sent once a day to other endpoints of the application, and never to the failing endpoint", async () => {
    const endpoint = await world.registerEndpoint(`${receiver.url}/failing`);
    const { endpointId, clinicId } = endpoint;
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { operationalEvents: ["endpoint.failing"] });
    await registerObserver("/observer", endpoint, "endpoint.failing");
    await registerObserver("/other-type", endpoint, "endpoint.disabled");
    const stranger = await world.registerEndpoint(`${receiver.url}/stranger`, { clinicId });
    await registerObserver("/stranger-observer", stranger, "endpoint.failing");
    receiver.setDefaultReaction({ status: 500 }, "/failing");
    // A time in the middle of a day (UTC), because events are limited per day.
    const startMs = Date.parse("2040-01-01T10:00:00.000Z");
    for (const minute of [0, 1, 4]) {
      clockAheadMs = startMs + minute * MINUTE_MS - Date.now();
      await deliverAppointment(endpoint, "failed");
    }
    expect(await listReportTypes(endpoint)).to.deep.equal([]);
    clockAheadMs = startMs + 6 * MINUTE_MS - Date.now();
    await deliverAppointment(endpoint, "failed");
    const body = await awaitBody("/observer");
    const url = `${receiver.url}/failing`;
    expect(body).to.deep.include({ type: "endpoint.failing", clinicId, branchId: null, environment: "production" });
    expect(body.data).to.deep.include({ endpoint: { id: endpointId, url }, failedAttempts: 4 });
    expect((body.data as { failingSince: string }).failingSince.slice(0, 15)).to.equal("2040-01-01T10:0");
    // Another failure period on the same day.
    receiver.queueReactions({ status: 200 });
    await deliverAppointment(endpoint, "delivered");
    for (const minute of [60, 70, 80, 90]) {
      clockAheadMs = startMs + minute * MINUTE_MS - Date.now();
      await deliverAppointment(endpoint, "failed");
    }
    clockAheadMs = startMs + 26 * HOUR_MS - Date.now();
    await deliverAppointment(endpoint, "failed");
    await awaitBody("/observer", 2);
    await deliverAppointment(endpoint, "failed");
    expect(await listReportTypes(endpoint)).to.deep.equal(Array(2).fill("WebhookEndpointFailureReported"));
    for (const path of ["/failing", "/other-type", "/stranger-observer"])
      expect(listBodies(path), path).to.deep.equal([]);
  });

  it("endpoint.disabled is sent with the reason, and can be replayed", async () => {
    const endpoint = await world.registerEndpoint(`${receiver.url}/gone`);
    const { endpointId } = endpoint;
    const observer = await registerObserver("/observer", endpoint, "endpoint.disabled");
    const { applicationId } = endpoint;
    const siblingElsewhere = await world.registerEndpoint(`${receiver.url}/elsewhere`, { applicationId });
    const observerElsewhere = await registerObserver("/elsewhere", siblingElsewhere, "endpoint.disabled");
    receiver.setDefaultReaction({ status: 410 }, "/gone");
    receiver.setDefaultReaction({ status: 500 }, "/observer");
    await deliverAppointment(endpoint, "failed");
    const body = await awaitBody("/observer");
    expect(body.data).to.deep.equal({ endpoint: { id: endpointId, url: `${receiver.url}/gone` }, reason: "gone" });
    await world.awaitStatus(body.id, observer, "failed");
    receiver.setDefaultReaction({ status: 200 }, "/observer");
    await world.requestReplay(body.id, observer);
    await world.awaitStatus(body.id, observer, "delivered");
    expect(listBodies("/observer")[1]).to.deep.equal(body);
    await world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "operator" });
    expect((await awaitBody("/observer", 3)).data).to.deep.include({ reason: "operator" });
    expect(await world.readDelivery(body.id, observerElsewhere)).to.equal(undefined);
    expect(await world.readDelivery(body.id, endpoint)).to.equal(undefined);
  });

  it("secret.expiring is sent once before a former secret expires, also to the endpoint itself", async () => {
    const endpoint = await world.registerEndpoint(`${receiver.url}/rotated`);
    const { endpointId } = endpoint;
    await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { operationalEvents: ["secret.expiring"] });
    const expiries = [5 * HOUR_MS, 7 * HOUR_MS].map((ms) => new Date(Date.now() + ms).toISOString());
    for (const previousExpiresAt of expiries) {
      const encryptedSecret = await world.seal(`whsec_${randomBytes(32).toString("base64")}`);
      const data = { secretId: randomUUID(), encryptedSecret, previousExpiresAt };
      await world.changeEndpoint(endpoint, "WebhookSecretRotated", data);
    }
    const condition = "endpoint_id = $1 AND jsonb_array_length(former_secrets) = 2";
    await world.awaitRows("webhook_secret", condition, [endpointId]);
    // A role looks for expiring secrets when it starts.
    startWebhooks();
    expect((await awaitBody("/rotated")).data).to.deep.equal({
      endpoint: { id: endpointId, url: `${receiver.url}/rotated` },
      expiresAt: expiries[0],
    });
    expect(listAcceptingLibraries(endpoint.secret, listRequests("/rotated")[0]!)).to.deep.equal(webhookLibraryNames);
    const reportAfter = async (hours: number) =>
      world.recordEvents(await findExpiringSecrets(world.pool, Date.now() + hours * HOUR_MS));
    expect(await Promise.all([reportAfter(2), reportAfter(2)])).to.deep.equal([1, 1]);
    expect((await awaitBody("/rotated", 2)).data).to.deep.include({ expiresAt: expiries[1] });
    await eventually("the report", async () => (await reportAfter(3)) === 0);
    await deliverAppointment(endpoint, "delivered");
    expect(await listReportTypes(endpoint)).to.deep.equal(Array(2).fill("WebhookSecretExpiryReported"));
  });
});
