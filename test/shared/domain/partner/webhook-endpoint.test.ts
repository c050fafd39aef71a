import { expect } from "chai";
import type { WebhookEndpointEvent } from "../../../../shared/domain/events/partner.ts";
import * as endpoints from "../../../../shared/domain/partner/webhook-endpoint.ts";
import { endpointAggregate, requireOwnEndpoint } from "../../../../shared/domain/partner/webhook-endpoint.ts";
import { given } from "../../../support/given.ts";

const endpointId = "e0000000-0000-4000-8000-000000000001";
const owner = { applicationId: "application", clinicId: "clinic", environment: "production" } as const;
const secret = { secretId: "one", encryptedSecret: "sealed" };
const registration = {
  endpointId,
  ...owner,
  ...secret,
  url: "https://hooks.example.com/",
  events: ["appointment.created" as const],
};
const registered: WebhookEndpointEvent = { type: "WebhookEndpointRegistered", data: registration };
const disabled: WebhookEndpointEvent = { type: "WebhookEndpointDisabled", data: { endpointId, reason: "operator" } };
const enabled: WebhookEndpointEvent = { type: "WebhookEndpointEnabled", data: { endpointId } };
const revoked: WebhookEndpointEvent = { type: "WebhookEndpointRevoked", data: { endpointId } };

const givenEndpoint = (...history: WebhookEndpointEvent[]) => given(endpointAggregate, ...history);

describe("webhook endpoint", () => {
  it("a webhook endpoint can be registered only once", () => {
    givenEndpoint().when(endpoints.registerEndpoint(registration), [registered]);
    givenEndpoint(registered).when(endpoints.registerEndpoint(registration), "webhook_endpoint_exists");
  });

  it("disabling a disabled webhook endpoint or enabling an active webhook endpoint changes nothing", () => {
    givenEndpoint(registered).when(endpoints.disableEndpoint("operator"), [disabled]);
    givenEndpoint(registered, disabled).when(endpoints.disableEndpoint("gone"), []);
    givenEndpoint(registered, disabled).when(endpoints.enableEndpoint, [enabled]);
    givenEndpoint(registered).when(endpoints.enableEndpoint, []);
  });

  it("the secret of an active or disabled webhook endpoint can be rotated", () => {
    const rotation = { ...secret, previousExpiresAt: "2026-05-05T08:00:00.000Z" };
    const rotated = { type: "WebhookSecretRotated", data: { endpointId, ...rotation } } as const;
    givenEndpoint(registered).when(endpoints.rotateSecret(rotation), [rotated]);
    givenEndpoint(registered, disabled).when(endpoints.rotateSecret(rotation), [rotated]);
    givenEndpoint(registered, revoked).when(endpoints.rotateSecret(rotation), "webhook_endpoint_revoked");
  });

  it("only an active webhook endpoint can be tested", () => {
    const tested: WebhookEndpointEvent = {
      type: "WebhookEndpointTested",
      data: { endpointId, applicationId: owner.applicationId, testId: "test" },
    };
    givenEndpoint(registered).when(endpoints.testEndpoint("test"), [tested]);
    givenEndpoint(registered, disabled).when(endpoints.testEndpoint("test"), "webhook_endpoint_disabled");
    givenEndpoint(registered, revoked).when(endpoints.testEndpoint("test"), "webhook_endpoint_revoked");
    givenEndpoint().when(endpoints.testEndpoint("test"), "webhook_endpoint_not_found");
    expect(givenEndpoint(registered, tested).state).to.deep.equal(givenEndpoint(registered).state);
  });

  it("a revoked webhook endpoint stays revoked", () => {
    givenEndpoint(registered).when(endpoints.revokeEndpoint, [revoked]);
    givenEndpoint(registered, revoked).when(endpoints.revokeEndpoint, []);
    givenEndpoint(registered, revoked).when(endpoints.enableEndpoint, "webhook_endpoint_revoked");
    givenEndpoint(registered, revoked).when(endpoints.disableEndpoint("operator"), "webhook_endpoint_revoked");
    // The dispatcher may disable an endpoint just after its revocation.
    expect(givenEndpoint(registered, revoked, disabled, enabled).state?.status).to.equal("revoked");
  });

  it("a webhook endpoint is reported as missing to everyone except the endpoint's owner", () => {
    const { state } = givenEndpoint(registered);
    expect(requireOwnEndpoint(state, owner).id).to.equal(endpointId);
    for (const otherOwner of [
      { ...owner, applicationId: "other" },
      { ...owner, clinicId: "other" },
      { ...owner, environment: "sandbox" as const },
    ])
      expect(() => requireOwnEndpoint(state, otherOwner))
        .to.throw()
        .with.property("code", "webhook_endpoint_not_found");
  });
});
