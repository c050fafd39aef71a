import { expect } from "chai";
import type { WebhookDeliveryEvent, WebhookEndpointEvent } from "../../../../shared/domain/events/partner.ts";
import { decideReplay, deliveryAggregate } from "../../../../shared/domain/partner/webhook-delivery.ts";
import {
  decideDisableEndpoint,
  decideEnableEndpoint,
  decideRegisterEndpoint,
  decideRevokeEndpoint,
  decideRotateSecret,
  decideTestEndpoint,
  endpointAggregate,
  requireOwnEndpoint,
} from "../../../../shared/domain/partner/webhook-endpoint.ts";
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
const disabled: WebhookEndpointEvent = {
  type: "WebhookEndpointDisabled",
  data: { endpointId, reason: "operator" },
};
const enabled: WebhookEndpointEvent = { type: "WebhookEndpointEnabled", data: { endpointId } };
const revoked: WebhookEndpointEvent = { type: "WebhookEndpointRevoked", data: { endpointId } };

const givenEndpoint = (...history: WebhookEndpointEvent[]) => given(endpointAggregate, ...history);

describe("webhook endpoint", () => {
  it("a webhook endpoint can be registered only once", () => {
    givenEndpoint().when(decideRegisterEndpoint(registration)).thenEvents(registered);
    givenEndpoint(registered).when(decideRegisterEndpoint(registration)).thenRefused("webhook_endpoint_exists");
  });

  it("disabling a disabled webhook endpoint or enabling an active webhook endpoint changes nothing", () => {
    givenEndpoint(registered).when(decideDisableEndpoint("operator")).thenEvents(disabled);
    givenEndpoint(registered, disabled).when(decideDisableEndpoint("gone")).thenEvents();
    givenEndpoint(registered, disabled).when(decideEnableEndpoint()).thenEvents(enabled);
    givenEndpoint(registered).when(decideEnableEndpoint()).thenEvents();
  });

  it("the secret of an active or disabled webhook endpoint can be rotated", () => {
    const rotation = { ...secret, previousExpiresAt: "2026-05-05T08:00:00.000Z" };
    const rotated = { type: "WebhookSecretRotated", data: { endpointId, ...rotation } } as const;
    givenEndpoint(registered).when(decideRotateSecret(rotation)).thenEvents(rotated);
    givenEndpoint(registered, disabled).when(decideRotateSecret(rotation)).thenEvents(rotated);
    givenEndpoint(registered, revoked).when(decideRotateSecret(rotation)).thenRefused("webhook_endpoint_revoked");
  });

  it("only an active webhook endpoint can be tested", () => {
    const tested: WebhookEndpointEvent = {
      type: "WebhookEndpointTested",
      data: { endpointId, applicationId: owner.applicationId, testId: "test" },
    };
    givenEndpoint(registered).when(decideTestEndpoint("test")).thenEvents(tested);
    givenEndpoint(registered, disabled).when(decideTestEndpoint("test")).thenRefused("webhook_endpoint_disabled");
    givenEndpoint(registered, revoked).when(decideTestEndpoint("test")).thenRefused("webhook_endpoint_revoked");
    givenEndpoint().when(decideTestEndpoint("test")).thenRefused("webhook_endpoint_not_found");
    expect(givenEndpoint(registered, tested).state).to.deep.equal(givenEndpoint(registered).state);
  });

  it("a revoked webhook endpoint stays revoked", () => {
    givenEndpoint(registered).when(decideRevokeEndpoint()).thenEvents(revoked);
    givenEndpoint(registered, revoked).when(decideRevokeEndpoint()).thenEvents();
    givenEndpoint(registered, revoked).when(decideEnableEndpoint()).thenRefused("webhook_endpoint_revoked");
    givenEndpoint(registered, revoked).when(decideDisableEndpoint("operator")).thenRefused("webhook_endpoint_revoked");
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
    ]) {
      expect(() => requireOwnEndpoint(state, otherOwner))
        .to.throw()
        .with.property("code", "webhook_endpoint_not_found");
    }
  });
});

describe("webhook delivery", () => {
  const data = { deliveryId: "d", endpointId };
  const failed: WebhookDeliveryEvent = { type: "WebhookDeliveryFailed", data: { ...data, attempts: 8 } };
  const skipped: WebhookDeliveryEvent = { type: "WebhookDeliverySkipped", data };
  const replayRequested: WebhookDeliveryEvent = { type: "WebhookDeliveryReplayRequested", data };
  const givenDelivery = (...history: WebhookDeliveryEvent[]) => given(deliveryAggregate, ...history);

  it("a delivery can be replayed after each failure, and after the delivery was skipped", () => {
    givenDelivery(failed).when(decideReplay(endpointId)).thenEvents(replayRequested);
    givenDelivery(skipped).when(decideReplay(endpointId)).thenEvents(replayRequested);
    givenDelivery(failed, replayRequested, failed).when(decideReplay(endpointId)).thenEvents(replayRequested);
  });

  it("a delivery that is unknown, in progress or of another endpoint cannot be replayed", () => {
    givenDelivery(failed, replayRequested).when(decideReplay(endpointId)).thenRefused("delivery_not_replayable");
    givenDelivery().when(decideReplay(endpointId)).thenRefused("delivery_not_replayable");
    givenDelivery(failed).when(decideReplay("other")).thenRefused("delivery_not_replayable");
  });

  it("an expired delivery cannot be replayed", () => {
    const expired: WebhookDeliveryEvent = { type: "WebhookDeliveryExpired", data };
    givenDelivery(failed, replayRequested, expired)
      .when(decideReplay(endpointId))
      .thenRefused("delivery_not_replayable");
  });
});
