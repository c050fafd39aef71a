import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createIds, openClinic } from "../../support/clinics.ts";
import { insertAttempts, insertDelivery as insertDeliveryRow } from "../../support/deliveries.ts";
import { insertFailingEndpoint } from "../../support/failing-endpoint.ts";
import { endpointRegistered, installationApproved, registerApplication } from "../../support/partner-events.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import { setUpCaller } from "./caller.ts";

const APPOINTMENT_ID = randomUUID();

describe("partner webhook reads", () => {
  const api = setUpQueryApi();
  const caller = setUpCaller(api);

  it("listWebhookEndpoints returns the application's endpoints at the clinic, newest first, without secrets", async () => {
    const [olderEndpointId, newerEndpointId] = createIds();
    const otherApplication = await registerApplication(api.given);
    const otherClinic = await openClinic(api.given);
    await api.given(
      endpointRegistered(caller.application, caller.clinic.clinicId, olderEndpointId),
      {
        ...endpointRegistered(caller.application, caller.clinic.clinicId, newerEndpointId),
        at: "2026-03-02T08:00:00.000Z",
      },
      endpointRegistered(caller.application, otherClinic.clinicId, randomUUID()),
      endpointRegistered(otherApplication, caller.clinic.clinicId, randomUUID()),
      { type: "WebhookEndpointDisabled", data: { endpointId: olderEndpointId, reason: "gone" } },
    );
    const { endpoints } = await caller.readBody("listWebhookEndpoints", "/webhook-endpoints");
    expect(endpoints.map(({ id }: { id: string }) => id)).to.deep.equal([newerEndpointId, olderEndpointId]);
    expect(endpoints[1]).to.deep.equal({
      id: olderEndpointId,
      clinicId: caller.clinic.clinicId,
      url: "https://example.com/hook",
      events: ["appointment.created"],
      status: "disabled",
      disabledReason: "gone",
      createdAt: "2026-03-01T08:00:00.000Z",
      updatedAt: "2026-03-01T08:00:00.000Z",
      failingSince: null,
      failedAttempts: 0,
      formerSecretExpiresAt: null,
    });
  });

  it("listWebhookEndpoints and getWebhookEndpoint show since when an active endpoint is failing", async () => {
    const endpointId = randomUUID();
    await api.given(endpointRegistered(caller.application, caller.clinic.clinicId, endpointId));
    const since = "2026-03-02T08:00:00.123Z";
    await insertFailingEndpoint(api.database.admin, endpointId, { since, failures: 4 });
    const health = { failingSince: since, failedAttempts: 4 };
    const path = `/webhook-endpoints/${endpointId}`;
    expect((await caller.readBody("listWebhookEndpoints", "/webhook-endpoints")).endpoints[0]).to.include(health);
    expect((await caller.readBody("getWebhookEndpoint", path)).endpoint).to.include(health);
    await api.given({ type: "WebhookEndpointDisabled", data: { endpointId, reason: "partner" } });
    const { endpoint } = await caller.readBody("getWebhookEndpoint", path);
    expect(endpoint).to.include({ failingSince: null, failedAttempts: 0 });
  });

  it("reads of an endpoint show until when its latest valid former secret is valid", async () => {
    const endpointId = randomUUID();
    await api.given(endpointRegistered(caller.application, caller.clinic.clinicId, endpointId));
    const path = `/webhook-endpoints/${endpointId}`;
    const readEnd = async () => (await caller.readBody("getWebhookEndpoint", path)).endpoint.formerSecretExpiresAt;
    const rotate = (previousExpiresAt: string) =>
      api.given({
        type: "WebhookSecretRotated",
        data: { endpointId, secretId: randomUUID(), encryptedSecret: "v1:1:2:3", previousExpiresAt },
      });
    expect(await readEnd()).to.equal(null);
    await rotate("2026-03-02T08:00:00.000Z");
    expect(await readEnd()).to.equal(null);
    for (const end of ["2999-03-02T08:00:00.000Z", "2026-03-03T08:00:00.000Z"]) await rotate(end);
    expect(await readEnd()).to.equal("2999-03-02T08:00:00.000Z");
    await api.given({ type: "WebhookEndpointRevoked", data: { endpointId } });
    expect(await readEnd()).to.equal(null);
  });

  it("listWebhookEndpoints returns every endpoint that is not revoked, even after many revocations", async () => {
    const activeEndpointId = randomUUID();
    const revokedEndpointIds = Array.from({ length: 505 }, () => randomUUID());
    await api.given(
      endpointRegistered(caller.application, caller.clinic.clinicId, activeEndpointId),
      ...revokedEndpointIds.flatMap((endpointId) => [
        {
          ...endpointRegistered(caller.application, caller.clinic.clinicId, endpointId),
          at: "2026-03-02T08:00:00.000Z",
        },
        { type: "WebhookEndpointRevoked" as const, data: { endpointId } },
      ]),
    );
    const { endpoints } = await caller.readBody("listWebhookEndpoints", "/webhook-endpoints");
    expect(endpoints).to.have.length(500);
    expect(endpoints.at(-1)).to.include({ id: activeEndpointId, status: "active" });
  });

  async function insertDelivery(
    endpointId: string,
    createdAt: string,
    attemptCount = 0,
    branchId: string | null = caller.clinic.branchId,
  ) {
    const { clinicId } = caller.clinic;
    const { applicationId } = caller.application;
    const deliveryId = await insertDeliveryRow(api.database.admin, {
      endpointId,
      clinicId,
      branchId,
      applicationId,
      appointmentId: APPOINTMENT_ID,
      createdAt,
    });
    await insertAttempts(api.database.admin, deliveryId, attemptCount);
    return deliveryId;
  }

  it("listWebhookDeliveries returns an endpoint's deliveries with all attempts, newest delivery first", async () => {
    const endpointId = randomUUID();
    await api.given(endpointRegistered(caller.application, caller.clinic.clinicId, endpointId));
    const olderDeliveryId = await insertDelivery(endpointId, "2026-03-01T08:00:00.000100Z", 2);
    const newerDeliveryId = await insertDelivery(endpointId, "2026-03-01T08:00:00.000200Z");
    const path = `/webhook-endpoints/${endpointId}/deliveries`;
    const { deliveries, page } = await caller.readBody("listWebhookDeliveries", path);
    expect(deliveries.map(({ id }: { id: string }) => id)).to.deep.equal([newerDeliveryId, olderDeliveryId]);
    expect(page).to.deep.equal({ limit: 50, returned: 2, nextCursor: null });
    const { eventId, ...delivery } = deliveries[1];
    expect(eventId).to.be.a("string");
    const startedAt = "2026-03-01T08:00:00.000Z";
    const attempt = { startedAt, durationMs: 12, statusCode: 500, error: null, answer: "oops" };
    expect(delivery).to.deep.equal({
      id: olderDeliveryId,
      appointmentId: APPOINTMENT_ID,
      type: "appointment.created",
      status: "failed",
      attempts: [
        { number: 1, ...attempt },
        { number: 2, ...attempt },
      ],
      nextAttemptAt: null,
      createdAt: startedAt,
      updatedAt: startedAt,
    });
  });

  it("the start of an attempt updates the delivery", async () => {
    const endpointId = randomUUID();
    await api.given(endpointRegistered(caller.application, caller.clinic.clinicId, endpointId));
    const deliveryId = await insertDelivery(endpointId, "2026-03-01T08:00:00.000Z", 1);
    await api.database.admin.query(
      "INSERT INTO webhooks.attempt (delivery_id, number, started_at) VALUES ($1, 2, '2026-03-01T08:00:05.000Z')",
      [deliveryId],
    );
    const { deliveries } = await caller.readBody(
      "listWebhookDeliveries",
      `/webhook-endpoints/${endpointId}/deliveries`,
    );
    expect(deliveries[0].updatedAt).to.equal("2026-03-01T08:00:05.000Z");
  });

  it("listWebhookDeliveries returns the latest 50 attempts of a delivery", async () => {
    const endpointId = randomUUID();
    await api.given(endpointRegistered(caller.application, caller.clinic.clinicId, endpointId));
    await insertDelivery(endpointId, "2026-03-01T08:00:00.000Z", 60);
    const path = `/webhook-endpoints/${endpointId}/deliveries`;
    const { deliveries } = await caller.readBody("listWebhookDeliveries", path);
    expect(deliveries[0].attempts.map(({ number }: { number: number }) => number)).to.deep.equal(
      Array.from({ length: 50 }, (_, index) => index + 11),
    );
  });

  it("deliveries about animals are visible to an application with linked access only while the animals are linked", async () => {
    const endpointId = randomUUID();
    const { clinicId, branchId } = caller.clinic;
    const { applicationId } = caller.application;
    const [animalId, otherAnimalId, customerId, linkId] = createIds();
    const path = `/webhook-endpoints/${endpointId}/deliveries`;
    await api.given(endpointRegistered(caller.application, clinicId, endpointId));
    const insert = (row: { branchId: string | null; animalId?: string }) =>
      insertDeliveryRow(api.database.admin, { endpointId, clinicId, applicationId, ...row });
    const deliveryId = await insert({ branchId, animalId });
    await insert({ branchId, animalId: otherAnimalId });
    await insert({ branchId });
    const testDeliveryId = await insert({ branchId: null });
    const listDeliveryIds = async () =>
      (await caller.readBody("listWebhookDeliveries", path)).deliveries.map(({ id }: { id: string }) => id);
    expect(await listDeliveryIds()).to.have.length(4);
    await api.given(installationApproved(caller.application, clinicId, { animalAccess: "linked" }));
    expect(await listDeliveryIds()).to.deep.equal([testDeliveryId]);
    const notFound = "404 webhook_delivery_not_found";
    expect(await caller.readRefusal(`${path}/${deliveryId}`)).to.equal(notFound);
    const link = { animalId, clinicId, applicationId, linkId };
    const consent = { ...link, covers: "appointments_read" as const, customerId, sandboxGeneration: 0 };
    await api.given({ type: "AnimalLinked", data: consent });
    expect(await listDeliveryIds()).to.have.members([deliveryId, testDeliveryId]);
    await api.given({ type: "AnimalLinkWithdrawn", data: { ...link, requestedBy: "owner" } });
    expect(await listDeliveryIds()).to.deep.equal([testDeliveryId]);
    expect(await caller.readRefusal(`${path}/${deliveryId}`)).to.equal(notFound);
  });
});
