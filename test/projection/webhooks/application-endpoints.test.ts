import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { closeUnsendableDeliveries } from "../../../projection/webhooks/record/close-deliveries.ts";
import { findExpiringSecrets } from "../../../projection/webhooks/record/record-events.ts";
import { deriveInstallationId } from "../../../shared/domain/events/ids.ts";
import { applicationEventType, type InstallationEvent } from "../../../shared/domain/events/partner.ts";
import {
  animalLinkBody,
  endpointDisabledBody,
  endpointTestBody,
  installationBody,
  secretExpiringBody,
} from "../../../shared/partner-api/webhook-body.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../support/webhook-libraries.ts";
import { createWorld, type Endpoint } from "./world.ts";

const HOUR_MS = 60 * 60_000;
const environment = "production";

describe("endpoints that belong to an application", () => {
  const world = useResource(createWorld);
  let receiver: Receiver;
  /** Endpoint of the same application at its clinic. */
  let clinicEndpoint: Endpoint;
  let endpoint: Endpoint;
  /** Milliseconds by which the clock of the webhooks role is ahead. */
  let clockAheadMs = 0;

  before(() => world.startAll({ clock: () => Date.now() + clockAheadMs }));
  beforeEach(async () => {
    clockAheadMs = 0;
    receiver = await startReceiver();
    // An endpoint of either kind of owner gets no events of the other kind, even if it is subscribed to them.
    clinicEndpoint = await world.registerEndpoint(`${receiver.url}/clinic`, {
      events: ["appointment.created", ...applicationEventType.options],
    });
    endpoint = await registerSibling("/application", clinicEndpoint);
  });

  const registerSibling = (path: string, siblingEndpoint: Endpoint) =>
    world.registerEndpoint(`${receiver.url}${path}`, {
      siblingEndpoint,
      belongsToApplication: true,
      events: ["appointment.created", ...applicationEventType.options],
    });
  const listBodies = (path: string) =>
    receiver.requests.filter((request) => request.path === path).map(({ body }) => JSON.parse(body));

  const grant = { scopes: ["webhooks:write"], branchIds: null, animalAccess: "linked" } as const;
  const approval = { ...grant, scopes: [...grant.scopes], approvedBy: null, rateLimitPerMinute: 100 };
  /** Appends an event of the installation of an endpoint's application. @returns the event's id */
  const changeInstallation = (
    { installationId, clinicId }: Endpoint,
    type: "InstallationNarrowed" | "InstallationRevoked",
    data: object = {},
  ) =>
    world.append(`installation-${installationId}`, { type, data: { installationId, ...data } } as InstallationEvent, {
      environment,
      clinicId,
    });
  const narrow = (of = endpoint) => changeInstallation(of, "InstallationNarrowed", grant);
  const revoke = (of = endpoint) => changeInstallation(of, "InstallationRevoked", { reason: null });
  /** Installs the application at another clinic. */
  const approveAt = (clinicId: string, { applicationId } = endpoint) => {
    const installationId = deriveInstallationId(applicationId, clinicId);
    const data = { installationId, applicationId, clinicId, ...approval };
    return world.append(
      `installation-${installationId}`,
      { type: "InstallationApproved", data },
      { environment, clinicId },
    );
  };
  const withdrawLink = (animalId: string, linkId: string | null, { applicationId, clinicId } = endpoint) =>
    world.append(
      `animalConsent-${animalId}`,
      { type: "AnimalLinkWithdrawn", data: { animalId, clinicId, applicationId, linkId, requestedBy: "owner" } },
      { environment, clinicId },
    );
  const sendTest = async ({ endpointId, applicationId } = endpoint) => {
    const testId = randomUUID();
    const data = { endpointId, applicationId, testId };
    await world.append(`webhookEndpoint-${testId}`, { type: "WebhookEndpointTested", data }, { environment });
    return testId;
  };
  const readDeliveries = async ({ endpointId } = endpoint) =>
    (
      await world.pool.query<{ clinic_id: string | null; event_type: string; status: string }>(
        "SELECT clinic_id, event_type, status FROM webhooks.delivery WHERE endpoint_id = $1 ORDER BY event_type",
        [endpointId],
      )
    ).rows;
  /** Sends a test event and waits for its delivery. Earlier events have then been matched too. */
  const passEvent = async (of = endpoint) => {
    await world.awaitStatus(await sendTest(of), of, "delivered");
  };

  it("the endpoint receives the events about the access at all clinics, also after a clinic has revoked it", async () => {
    const [otherClinicId, animalId, linkId] = [randomUUID(), randomUUID(), randomUUID()];
    const ids = [await approveAt(otherClinicId), await narrow(), await withdrawLink(animalId, linkId), await revoke()];
    const unredeemedId = await withdrawLink(animalId, null);
    for (const id of ids) await world.awaitStatus(id, endpoint, "delivered");
    await passEvent();
    const bodies = new Map(listBodies("/application").map((body) => [body.id, body]));
    expect(bodies.has(unredeemedId)).to.equal(false);
    const [approved, narrowed, withdrawn, revoked] = ids.map((id) => bodies.get(id));
    const installation = { ...grant, scopes: [...grant.scopes] };
    expect(installationBody.parse(approved)).to.deep.include({
      ...{ type: "installation.approved", environment, clinicId: otherClinicId, branchId: null },
      data: { installation },
    });
    const { clinicId } = endpoint;
    expect(installationBody.parse(narrowed)).to.deep.include({ type: "installation.access_changed", clinicId });
    expect(narrowed.data).to.deep.equal({ installation });
    expect(animalLinkBody.parse(withdrawn)).to.deep.include({
      ...{ type: "animal_link.withdrawn", clinicId, data: { link: { id: linkId, animalId } } },
    });
    expect(installationBody.parse(revoked)).to.deep.include({ type: "installation.revoked", clinicId });
    expect(revoked.data).to.deep.equal({ installation: null });
    const [request] = receiver.requests.filter(({ path }) => path === "/application");
    expect(listAcceptingLibraries(endpoint.secret, request!)).to.deep.equal(webhookLibraryNames);
    expect((await readDeliveries()).map(({ clinic_id }) => clinic_id)).to.deep.equal(Array(5).fill(null));
  });

  it("endpoints get only events of their own application, owner and environment", async () => {
    const { clinicId } = endpoint;
    const strangerAtClinic = await world.registerEndpoint(`${receiver.url}/stranger-clinic`, { clinicId });
    const stranger = await registerSibling("/stranger", strangerAtClinic);
    const { eventId } = await world.requestAppointment(clinicId);
    for (const other of [clinicEndpoint, strangerAtClinic]) await world.awaitStatus(eventId, other, "delivered");
    const { installationId } = endpoint;
    // Without the environment, partners do not receive the event.
    await world.append(
      `installation-${installationId}`,
      { type: "InstallationNarrowed", data: { installationId, ...grant, scopes: [...grant.scopes] } },
      { environment: "sandbox", clinicId },
    );
    await world.append(`installation-${installationId}`, {
      type: "InstallationNarrowed",
      data: { installationId, ...grant, scopes: [...grant.scopes] },
    });
    await withdrawLink(randomUUID(), randomUUID());
    await narrow();
    const strangerEventId = await revoke(stranger);
    await world.awaitStatus(strangerEventId, stranger, "delivered");
    for (const other of [endpoint, stranger]) await passEvent(other);
    const listTypes = async (of: Endpoint) => (await readDeliveries(of)).map(({ event_type }) => event_type);
    expect(await listTypes(endpoint)).to.deep.equal([
      "animal_link.withdrawn",
      "endpoint.test",
      "installation.access_changed",
    ]);
    expect(await listTypes(stranger)).to.deep.equal(["endpoint.test", "installation.revoked"]);
    expect(await listTypes(clinicEndpoint)).to.deep.equal(["appointment.created"]);
    expect(await listTypes(strangerAtClinic)).to.deep.equal(["appointment.created"]);
  });

  it("a revoked application gets nothing, and its pending deliveries are cancelled", async () => {
    receiver.setDefaultReaction({ status: 503, headers: { "Retry-After": "3600" } });
    const pendingId = await narrow();
    await world.awaitFirstResponse(pendingId, endpoint, 503);
    const { applicationId } = endpoint;
    await world.append(`partnerApplication-${applicationId}`, {
      type: "ApplicationRevoked",
      data: { applicationId, reason: null },
    });
    await world.awaitStatus(pendingId, endpoint, "cancelled");
    const requestCount = receiver.requests.length;
    receiver.setDefaultReaction({});
    const revokedId = await revoke();
    const other = await world.registerEndpoint(`${receiver.url}/other`);
    const { eventId } = await world.requestAppointment(other.clinicId);
    await world.awaitStatus(eventId, other, "delivered");
    expect(await world.readDelivery(revokedId, endpoint)).to.equal(undefined);
    expect(receiver.requests.length).to.equal(requestCount + 1);
  });

  it("the revocation of an installation cancels the deliveries of its clinic, but not those of the application", async () => {
    receiver.setDefaultReaction({ status: 503, headers: { "Retry-After": "3600" } });
    const { eventId } = await world.requestAppointment(clinicEndpoint.clinicId);
    await world.awaitFirstResponse(eventId, clinicEndpoint, 503);
    const narrowedId = await narrow();
    await world.awaitFirstResponse(narrowedId, endpoint, 503);
    await revoke();
    await world.awaitStatus(eventId, clinicEndpoint, "cancelled");
    await closeUnsendableDeliveries(world.pool, Date.now());
    expect(await world.readDelivery(narrowedId, endpoint)).to.include({ status: "pending" });
    receiver.setDefaultReaction({});
    clockAheadMs = HOUR_MS;
    await world.awaitStatus(narrowedId, endpoint, "delivered");
  });

  it("a failed delivery is retried and can be replayed, also after the owner was erased", async () => {
    receiver.queueReactions(...Array(4).fill({ status: 500 }));
    const eventId = await withdrawLink(randomUUID(), randomUUID());
    await world.awaitStatus(eventId, endpoint, "failed");
    const customerId = randomUUID();
    await world.append(`customer-${customerId}`, {
      type: "CustomerDataErased",
      data: { customerId, categories: ["contact"], cause: "request", reason: "Request 17" },
    });
    await world.requestReplay(eventId, endpoint);
    await world.awaitStatus(eventId, endpoint, "delivered");
    const [firstBody, ...otherBodies] = listBodies("/application");
    expect(otherBodies).to.deep.equal(Array(4).fill(firstBody));
  });

  it("a disabled endpoint skips events, and a replay of several deliveries sends them", async () => {
    await world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "partner" });
    const ids = [await narrow(), await revoke()];
    for (const id of ids) await world.awaitStatus(id, endpoint, "skipped");
    await world.changeEndpoint(endpoint, "WebhookEndpointEnabled");
    await world.awaitEndpointStatus(endpoint, "active");
    const since = new Date(Date.now() - HOUR_MS).toISOString();
    const until = new Date(Date.now() + HOUR_MS).toISOString();
    await world.requestReplays(endpoint, { clinicId: null, since, until, statuses: ["skipped"] });
    for (const id of ids) await world.awaitStatus(id, endpoint, "delivered");
    expect(listBodies("/application").map(({ id }) => id)).to.have.members(ids);
  });

  it("operational events about the endpoint go only to other endpoints of the application", async () => {
    const operationalEvents = ["endpoint.disabled", "secret.expiring"];
    const observer = await registerSibling("/observer", endpoint);
    for (const other of [observer, clinicEndpoint, endpoint])
      await world.changeEndpoint(other, "WebhookEndpointChanged", { events: [], operationalEvents });
    const stranger = await registerSibling("/stranger", await world.registerEndpoint(`${receiver.url}/other`));
    await world.changeEndpoint(stranger, "WebhookEndpointChanged", { events: [], operationalEvents });
    await world.changeEndpoint(endpoint, "WebhookSecretRotated", {
      secretId: randomUUID(),
      encryptedSecret: await world.seal(`whsec_${randomBytes(32).toString("base64")}`),
      previousExpiresAt: new Date(Date.now() + HOUR_MS).toISOString(),
    });
    await world.awaitRows("webhook_secret", "endpoint_id = $1 AND jsonb_array_length(former_secrets) = 1", [
      endpoint.endpointId,
    ]);
    await world.recordEvents(await findExpiringSecrets(world.pool, Date.now()));
    receiver.setDefaultReaction({ status: 410 }, "/application");
    await sendTest();
    await world.awaitEndpointStatus(endpoint, "disabled");
    const bodies = await eventually("two operational events", () => {
      const observedBodies = listBodies("/observer");
      return observedBodies.length === 2 && observedBodies;
    });
    const data = bodies.map((body) => {
      expect(body).to.include({ clinicId: null, branchId: null });
      return body.type === "endpoint.disabled" ? endpointDisabledBody.parse(body) : secretExpiringBody.parse(body);
    });
    expect(data.map(({ type }) => type)).to.have.members(operationalEvents);
    for (const { data: eventData } of data) expect(eventData.endpoint.id).to.equal(endpoint.endpointId);
    for (const other of [observer, stranger]) await passEvent(other);
    const listTypes = (path: string) => listBodies(path).map(({ type }) => type);
    expect([listTypes("/clinic"), listTypes("/stranger")]).to.deep.equal([[], ["endpoint.test"]]);
    expect(listTypes("/application")).not.to.include("endpoint.disabled");
  });

  it("a test event has no clinic, and reaches only the endpoint under test", async () => {
    const sibling = await registerSibling("/sibling", endpoint);
    await passEvent();
    await passEvent(sibling);
    for (const path of ["/application", "/sibling"]) {
      const bodies = listBodies(path);
      expect(bodies).to.have.length(1);
      expect(endpointTestBody.parse(bodies[0])).to.include({ type: "endpoint.test", clinicId: null });
    }
  });

  it("endpoints of both kinds with the format `cloudevents` get their clinic, or the application, as source", async () => {
    for (const other of [endpoint, clinicEndpoint])
      await world.changeEndpoint(other, "WebhookEndpointChanged", { bodyFormat: "cloudevents" });
    await passEvent();
    await world.awaitStatus(await narrow(), endpoint, "delivered");
    const [test, narrowed] = listBodies("/application");
    expect(test).to.include({ type: "endpoint.test", source: "/application" }).and.not.have.property("clinicid");
    expect(narrowed).to.include({ source: `urn:uuid:${endpoint.clinicId}`, clinicid: endpoint.clinicId });
  });
});
