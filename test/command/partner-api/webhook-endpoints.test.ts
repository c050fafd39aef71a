import { expect } from "chai";
import pg from "pg";
import { testEndpoint } from "../../../command/operations/webhook-endpoint-operations.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { insertFailingEndpoint } from "../../support/failing-endpoint.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import type { TestDatabase } from "../../support/stack.ts";
import { type EndpointWorld, secretBox, startEndpointWorld, toText, validEndpoint } from "./endpoint-world.ts";

const ENDPOINT_FIELDS = ["id", "clinicId", "url", "events", "status", "disabledReason", "createdAt", "updatedAt"];

describe("webhook endpoints", () => {
  let { command, world, call, createEndpoint, getReference, readEvents } = {} as EndpointWorld;
  let database: TestDatabase;

  before(async () => {
    database = await createMigratedDatabase();
    const env = { DATABASE_URL: database.urls.command };
    ({ command, world, call, createEndpoint, getReference, readEvents } = await startEndpointWorld(env));
  });

  it("without a signing key, an endpoint cannot have asymmetric signatures, and no keys are published", async () => {
    const path = `/${await createEndpoint()}`;
    const { status, body } = await call("PATCH", path, { asymmetricSignature: true });
    expect([status, body.error, body.details[0].path]).to.deep.equal([400, "validation_failed", "asymmetricSignature"]);
    expect((await call("PATCH", path, { asymmetricSignature: false })).status).to.equal(200);
    const keysResponse = await fetch(`${command.url}/.well-known/webhook-keys.json`);
    expect(await keysResponse.json()).to.deep.equal({ keys: [] });
  });

  it("an endpoint is enabled although its failures have disabled it, which the log does not contain yet", async () => {
    const pool = new pg.Pool({ connectionString: database.urls.projection, max: 1 });
    const enable = async (isGone: boolean) => {
      const endpointId = await createEndpoint();
      await insertFailingEndpoint(pool, endpointId, { isGone });
      // The second time, the event is in the log, but its row is not yet deleted.
      for (let count = 0; count < 2; count += 1) {
        const { status, body } = await call("POST", `/${endpointId}/enable`);
        expect([status, body.endpoint.status]).to.deep.equal([200, "active"]);
      }
      const changes = (await readEvents(endpointId)).slice(1);
      return changes.map(({ type, data, metadata }) => [type, "reason" in data && data.reason, metadata.actor.type]);
    };
    const [disabled, enabled] = [await enable(true), await enable(false)];
    await pool.end();
    expect(disabled).to.deep.equal([
      ["WebhookEndpointDisabled", "gone", "system"],
      ["WebhookEndpointEnabled", false, "application"],
    ]);
    expect(enabled).to.deep.equal([]);
  });

  it("a request that enables an endpoint with replaySince also requests a replay, once for each key", async () => {
    const id = await createEndpoint();
    await call("POST", `/${id}/disable`);
    const enable = (body: object, key?: string) => {
      const headers = { ...world.headers, ...(key && { "Idempotency-Key": key }) };
      return call("POST", `/${id}/enable`, body, { ...world, headers });
    };
    const since = { replaySince: "2026-11-01T00:00:00+01:00" };
    expect((await enable(since)).body.details[0].path).to.equal("header Idempotency-Key");
    expect((await enable({ replaySince: "today" }, "the-same-key")).body.details[0].path).to.equal("replaySince");
    expect((await readEvents(id)).map(({ type }) => type)).not.to.include("WebhookEndpointEnabled");
    const first = await enable(since, "the-same-key");
    expect([first.status, first.body.endpoint.status]).to.deep.equal([200, "active"]);
    expect(first.body.replay).to.include({ endpointId: id, since: "2026-10-31T23:00:00.000Z", status: "pending" });
    const repeated = await enable(since, "the-same-key");
    expect(repeated.body).to.deep.equal(first.body);
    const conflict = await enable({ replaySince: "2026-11-02T00:00:00Z" }, "the-same-key");
    expect([conflict.status, conflict.body.error]).to.deep.equal([409, "idempotency_conflict"]);
  });

  describe("createWebhookEndpoint", () => {
    it("createWebhookEndpoint returns 201 with the endpoint and the secret, and stores the secret encrypted", async () => {
      const events = ["appointment.updated", "appointment.created", "appointment.updated"];
      const { status, body, headers } = await call("POST", "", { ...validEndpoint, events });
      expect(status).to.equal(201);
      expect(headers.get("cache-control")).to.equal("no-store");
      expect(body).to.have.all.keys("ok", "endpoint", "secret");
      expect(body.endpoint).to.have.all.keys(ENDPOINT_FIELDS);
      expect(body.endpoint).to.deep.include({
        clinicId: world.clinicId,
        url: validEndpoint.url,
        events: ["appointment.updated", "appointment.created"],
        status: "active",
        disabledReason: null,
      });
      expect(body.secret).to.match(/^whsec_[A-Za-z0-9+/]{43}=$/);
      const [event] = await readEvents(body.endpoint.id);
      expect(toText(event)).to.include('"encryptedSecret":"eyJ').and.not.include(body.secret.slice(6));
    });

    const invalidEndpoints: [string, unknown, string][] = [
      ["a missing URL", { events: validEndpoint.events }, "invalid_destination"],
      ["a URL that is a number", { ...validEndpoint, url: 7 }, "invalid_destination"],
      ["a text that is not a URL", { ...validEndpoint, url: "hooks" }, "invalid_destination"],
      [
        "a URL of 2,049 characters",
        { ...validEndpoint, url: "https://x.example/./".padEnd(2_049, "./") },
        "invalid_destination",
      ],
      ["a URL of another origin", { ...validEndpoint, url: "https://hooks.example.com/" }, "destination_not_approved"],
      ["missing events", { url: validEndpoint.url }, "validation_failed"],
      ["an empty list of events", { ...validEndpoint, events: [] }, "validation_failed"],
      ["an unknown event", { ...validEndpoint, events: ["appointment.deleted"] }, "validation_failed"],
      ["an unknown field", { ...validEndpoint, secret: "mine" }, "validation_failed"],
      ["an array as body", [], "validation_failed"],
      ["null as body", null, "validation_failed"],
    ];
    for (const [caseName, body, code] of invalidEndpoints) {
      it(`createWebhookEndpoint returns 400 ${code} for ${caseName}`, async () => {
        const response = await call("POST", "", body);
        expect([response.status, response.body.error]).to.deep.equal([400, code]);
        expect(response.body.details).to.not.equal(undefined);
      });
    }
  });

  describe("rotateWebhookSecret", () => {
    it("rotateWebhookSecret returns a new secret, and the previous secret remains in use for 24 hours", async () => {
      const { body: createdBody } = await call("POST", "", validEndpoint);
      const { status, body } = await call("POST", `/${createdBody.endpoint.id}/rotate-secret`);
      expect(status).to.equal(200);
      expect(body.endpoint).to.have.all.keys(ENDPOINT_FIELDS);
      expect(body.secret)
        .to.match(/^whsec_/)
        .and.not.equal(createdBody.secret);
      const [, event] = await readEvents(createdBody.endpoint.id);
      if (event?.type !== "WebhookSecretRotated") throw new Error("The secret was not rotated.");
      expect(Date.parse(event.data.previousExpiresAt) - Date.parse(body.endpoint.updatedAt)).to.equal(86_400_000);
    });

    it("rotateWebhookSecret returns 409 concurrent_rotation if a concurrent rotation succeeds first", async () => {
      const id = await createEndpoint();
      const responses = await Promise.all(Array.from({ length: 20 }, () => call("POST", `/${id}/rotate-secret`)));
      const rotationResponses = responses.filter(({ status }) => status === 200);
      const conflictResponses = responses.filter(({ status }) => status === 409);
      expect(conflictResponses).to.have.length.above(0);
      expect(rotationResponses.length + conflictResponses.length).to.equal(20);
      expect(new Set(conflictResponses.map(({ body }) => body.error))).to.deep.equal(new Set(["concurrent_rotation"]));
      // Each returned secret belongs to exactly one rotation in the event log.
      const sealedSecrets = (await readEvents(id)).flatMap((event) =>
        event.type === "WebhookSecretRotated" ? [event.data.encryptedSecret] : [],
      );
      const storedSecrets = await Promise.all(sealedSecrets.map((secret) => secretBox.open(secret)));
      expect(rotationResponses.map(({ body }) => body.secret)).to.have.members(storedSecrets);
    });
  });

  describe("testWebhookEndpoint", () => {
    it("a test has its own stream, so that the stream of the endpoint stays short", async () => {
      const endpointId = await createEndpoint();
      const reference = getReference(endpointId);
      const { events, deliveryId } = await testEndpoint(command.log, reference, createTestOperatorContext());
      const [{ data }] = events as [CatalogEvent & { type: "WebhookEndpointTested" }];
      expect(deliveryId).to.equal(deriveWebhookDeliveryId(data.testId, endpointId));
      const [testEvent] = await readEvents(data.testId);
      expect(testEvent?.data).to.deep.equal({ endpointId, applicationId: world.applicationId, testId: data.testId });
      expect(testEvent?.metadata).to.include({ clinicId: world.clinicId, environment: "production" });
      expect(await readEvents(endpointId)).to.have.length(1);
    });
  });
});
