import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { narrowInstallation } from "../../../command/operations/installation-operations.ts";
import {
  changeEndpoint,
  disableEndpoint,
  enableEndpoint,
} from "../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { createSigningKey } from "../../support/asymmetric-keys.ts";
import { eventually } from "../../support/eventually.ts";
import { createClinic, createPartnerWorld, createTestOperatorContext } from "../../support/partner.ts";
import { type EndpointWorld, ORIGIN, SECRET_KEYS, secretBox, startEndpointWorld, toText } from "./endpoint-world.ts";

describe("changes of a webhook endpoint by its partner", () => {
  let { command, world, call, createEndpoint, getReference, readEvents } = {} as EndpointWorld;

  before(async () => {
    const keys = [await createSigningKey("first"), await createSigningKey("second")];
    const endpointWorld = await startEndpointWorld({ WEBHOOK_SIGNING_KEYS: JSON.stringify({ keys }) });
    ({ command, world, call, createEndpoint, getReference, readEvents } = endpointWorld);
  });

  it("updateWebhookEndpoint returns 200 with all settings, and records one event with the application as actor", async () => {
    const id = await createEndpoint();
    const changes = {
      url: `${ORIGIN}/new`,
      events: ["appointment.updated"],
      operationalEvents: ["secret.expiring"],
      branchIds: [world.branchId.toUpperCase()],
      headers: { Authorization: "Bearer one", "X-Key": "two" },
      rateLimitPerSecond: 10,
      ordering: "appointment",
      bodyFormat: "cloudevents",
      asymmetricSignature: true,
    };
    const { status, body } = await call("PATCH", `/${id}`, changes);
    expect(status).to.equal(200);
    const { createdAt, updatedAt, ...endpoint } = body.endpoint;
    expect(endpoint).to.deep.equal({
      id,
      clinicId: world.clinicId,
      url: `${ORIGIN}/new`,
      events: ["appointment.updated"],
      status: "active",
      disabledReason: null,
      operationalEvents: ["secret.expiring"],
      branchIds: [world.branchId],
      rateLimitPerSecond: 10,
      ordering: "appointment",
      bodyFormat: "cloudevents",
      asymmetricSignature: true,
      headerNames: ["Authorization", "X-Key"],
    });
    expect(updatedAt > createdAt).to.equal(true);
    const [, event] = await readEvents(id);
    expect(event?.type).to.equal("WebhookEndpointChanged");
    expect(event?.metadata).to.deep.include({
      actor: { type: "application", id: world.applicationId },
      clinicId: world.clinicId,
      environment: "production",
    });
  });

  it("the public keys of asymmetric signatures are published, and may be cached", async () => {
    const response = await fetch(`${command.url}/.well-known/webhook-keys.json`);
    expect([response.status, response.headers.get("Cache-Control")]).to.deep.equal([200, "public, max-age=300"]);
    const { keys } = (await response.json()) as { keys: Record<string, string>[] };
    expect(keys.map(({ kid }) => kid)).to.deep.equal(["first", "second"]);
    for (const { x, whpk, ...otherMembers } of keys) {
      expect(otherMembers).to.have.all.keys("kty", "crv", "kid", "alg", "use");
      expect(whpk).to.equal(`whpk_${Buffer.from(x!, "base64url").toString("base64")}`);
    }
  });

  it("the values of custom headers are stored encrypted, and never returned", async () => {
    const id = await createEndpoint();
    const responses = [
      await call("PATCH", `/${id}`, { headers: { "X-Key": "first value", "X-Other": "other value" } }),
      await call("PATCH", `/${id}`, { headers: { "x-key": "second value", "X-Other": null } }),
      await call("PATCH", `/${id}`, { headers: { "X-Key": "third value\n" } }),
    ];
    expect(responses.map(({ status }) => status)).to.deep.equal([200, 200, 400]);
    expect(responses[1]!.body.endpoint.headerNames).to.deep.equal(["x-key"]);
    const events = await readEvents(id);
    for (const text of [...responses.map((response) => response.text), toText(events)]) {
      expect(text).to.not.match(/(first|second|third|other) value/);
    }
    const lastEvent = events.at(-1);
    if (lastEvent?.type !== "WebhookEndpointChanged") throw new Error("The endpoint was not changed.");
    expect(await secretBox.open(lastEvent.data.headers![0]!.encryptedValue)).to.equal("second value");
  });

  it("a repeated header value is encrypted again if its key is no longer the current key", async () => {
    const id = await createEndpoint();
    await call("PATCH", `/${id}`, { headers: { "X-Key": "value" } });
    const newBox = createSecretBox({
      current: "k2",
      keys: { ...SECRET_KEYS.keys, k2: Buffer.alloc(32).toString("base64") },
    });
    const request = { ...getReference(id), changes: { headers: { "X-Key": "value" } }, permittedBranchIds: [] };
    for (const eventCount of [1, 0]) {
      const dependencies = { log: command.log, secretBox: newBox };
      const { events, state } = await changeEndpoint(dependencies, request, createTestOperatorContext());
      expect(events).to.have.length(eventCount);
      expect(newBox.isSealedWithCurrentKey(state!.headers[0]!.encryptedValue)).to.equal(true);
    }
  });

  const invalidChanges: [string, unknown, string][] = [
    ["a URL of another origin", { url: "https://hooks.example.com/" }, "destination_not_approved"],
    ["a text that is not a URL", { url: "hooks" }, "invalid_destination"],
    ["a URL that is null", { url: null }, "invalid_destination"],
    ["no events", { events: [] }, "validation_failed"],
    ["an unknown event", { events: ["appointment.deleted"] }, "validation_failed"],
    ["an operational event as event", { events: ["secret.expiring"] }, "validation_failed"],
    ["a test as operational event", { operationalEvents: ["endpoint.test"] }, "validation_failed"],
    ["an empty list of branches", { branchIds: [] }, "validation_failed"],
    ["an unknown branch", { branchIds: [randomUUID()] }, "validation_failed"],
    ["a branch that is not a UUID", { branchIds: ["main"] }, "validation_failed"],
    ["a reserved header", { headers: { "Webhook-Id": "1" } }, "validation_failed"],
    ["a header twice", { headers: { "X-Key": "1", "x-key": "2" } }, "validation_failed"],
    ["a header with a number", { headers: { "X-Key": 1 } }, "validation_failed"],
    ["nine headers", { headers: Object.fromEntries([..."123456789"].map((n) => [`X-${n}`, n])) }, "validation_failed"],
    ["a rate limit of zero", { rateLimitPerSecond: 0 }, "validation_failed"],
    ["a fractional rate limit", { rateLimitPerSecond: 1.5 }, "validation_failed"],
    ["a rate limit above 1,000", { rateLimitPerSecond: 1_001 }, "validation_failed"],
    ["an unknown order", { ordering: "clinic" }, "validation_failed"],
    ["an order that is null", { ordering: null }, "validation_failed"],
    ["an unknown format", { bodyFormat: "xml" }, "validation_failed"],
    ["a status", { status: "active" }, "validation_failed"],
    ["an array as body", [], "validation_failed"],
  ];
  it("updateWebhookEndpoint returns 400 for invalid changes, and changes nothing", async () => {
    const id = await createEndpoint();
    for (const [caseName, changes, code] of invalidChanges) {
      const { status, body } = await call("PATCH", `/${id}`, changes);
      expect([status, body.error], caseName).to.deep.equal([400, code]);
      expect(body.details, caseName).to.have.length.above(0);
    }
    const { body } = await call("PATCH", `/${id}`, { headers: { Host: "a", "a b": "c" } });
    expect(body.details).to.deep.equal([
      { path: "headers.Host", message: "is reserved for the service" },
      { path: "headers.a b", message: "must be a header name with at most 64 characters" },
    ]);
    expect(await readEvents(id)).to.have.length(1);
  });

  it("an endpoint can be limited only to branches of the installation, with the same error for all other branches", async () => {
    const limitedWorld = await createPartnerWorld(command, "sandbox");
    const change = { ...limitedWorld, branchIds: [limitedWorld.branchId] };
    await narrowInstallation(command.log, change, createTestOperatorContext());
    const id = await createEndpoint(limitedWorld);
    const limit = (branchId: string) => call("PATCH", `/${id}`, { branchIds: [branchId] }, limitedWorld);
    await eventually("the narrowed installation", async () => {
      return (await limit(limitedWorld.otherBranchId)).status === 400;
    });
    const otherClinic = await createClinic(command.log, "sandbox");
    const refusals = [
      await limit(limitedWorld.otherBranchId),
      await limit(otherClinic.branchId),
      await limit(randomUUID()),
    ];
    for (const { status, body } of refusals) {
      expect([status, body.error]).to.deep.equal([400, "validation_failed"]);
      expect(body.details).to.deep.equal([
        { path: "branchIds.0", message: "must be a branch that the installation covers" },
      ]);
    }
    expect((await limit(limitedWorld.branchId)).status).to.equal(200);
  });

  it("a partner cannot enable an endpoint that the operator disabled", async () => {
    const id = await createEndpoint();
    await call("POST", `/${id}/disable`);
    await disableEndpoint(command.log, getReference(id), createTestOperatorContext());
    const { status, body } = await call("POST", `/${id}/enable`);
    expect([status, body.error]).to.deep.equal([409, "webhook_endpoint_disabled_by_operator"]);
    expect((await call("POST", `/${id}/disable`)).body.endpoint.disabledReason).to.equal("operator");
    await enableEndpoint(command.log, getReference(id), createTestOperatorContext());
    expect((await call("POST", `/${id}/enable`)).status).to.equal(200);
  });
});
