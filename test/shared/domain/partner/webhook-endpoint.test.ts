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
  ownEndpoint,
} from "../../../../shared/domain/partner/webhook-endpoint.ts";
import { given } from "../../../support/given.ts";

const endpointId = "e0000000-0000-4000-8000-000000000001";
const owner = { applicationId: "application", clinicId: "clinic", environment: "production" } as const;
const secret = { secretId: "one", encryptedSecret: "sealed" };
const registration = {
  ...{ endpointId, ...owner, ...secret, url: "https://hooks.example.com/" },
  events: ["appointment.created" as const],
};
const registered: WebhookEndpointEvent = { type: "WebhookEndpointRegistered", data: registration };
const disabled: WebhookEndpointEvent = {
  type: "WebhookEndpointDisabled",
  data: { endpointId, reason: "operator" },
};
const enabled: WebhookEndpointEvent = { type: "WebhookEndpointEnabled", data: { endpointId } };
const revoked: WebhookEndpointEvent = { type: "WebhookEndpointRevoked", data: { endpointId } };

const on = (...history: WebhookEndpointEvent[]) => given(endpointAggregate, ...history);

describe("webhook endpoint", () => {
  it("is registered once", () => {
    on().when(decideRegisterEndpoint(registration)).thenEvents(registered);
    on(registered).when(decideRegisterEndpoint(registration)).thenRefused("webhook_endpoint_exists");
  });

  it("is disabled and enabled, each once", () => {
    on(registered).when(decideDisableEndpoint("operator")).thenEvents(disabled);
    on(registered, disabled).when(decideDisableEndpoint("gone")).thenEvents();
    on(registered, disabled).when(decideEnableEndpoint()).thenEvents(enabled);
    on(registered).when(decideEnableEndpoint()).thenEvents();
  });

  it("has its secret rotated, disabled or not", () => {
    const rotation = { ...secret, previousExpiresAt: "2026-05-05T08:00:00.000Z" };
    const rotated = { type: "WebhookSecretRotated", data: { endpointId, ...rotation } } as const;
    on(registered).when(decideRotateSecret(rotation)).thenEvents(rotated);
    on(registered, disabled).when(decideRotateSecret(rotation)).thenEvents(rotated);
    on(registered, revoked).when(decideRotateSecret(rotation)).thenRefused("webhook_endpoint_revoked");
  });

  it("is tested while it is active", () => {
    const tested: WebhookEndpointEvent = {
      type: "WebhookEndpointTested",
      data: { endpointId, testId: "test" },
    };
    on(registered).when(decideTestEndpoint("test")).thenEvents(tested);
    on(registered, disabled).when(decideTestEndpoint("test")).thenRefused("webhook_endpoint_disabled");
    on(registered, revoked).when(decideTestEndpoint("test")).thenRefused("webhook_endpoint_revoked");
    on().when(decideTestEndpoint("test")).thenRefused("webhook_endpoint_not_found");
    expect(on(registered, tested).state).to.deep.equal(on(registered).state);
  });

  it("is revoked for good", () => {
    on(registered).when(decideRevokeEndpoint()).thenEvents(revoked);
    on(registered, revoked).when(decideRevokeEndpoint()).thenEvents();
    on(registered, revoked).when(decideEnableEndpoint()).thenRefused("webhook_endpoint_revoked");
    on(registered, revoked).when(decideDisableEndpoint("operator")).thenRefused("webhook_endpoint_revoked");
    // The dispatcher's report may come after the revocation.
    expect(on(registered, revoked, disabled, enabled).state?.status).to.equal("revoked");
  });

  it("is known to its owner alone", () => {
    const { state } = on(registered);
    expect(ownEndpoint(state, owner).id).to.equal(endpointId);
    for (const other of [
      { ...owner, applicationId: "other" },
      { ...owner, clinicId: "other" },
      { ...owner, environment: "sandbox" as const },
    ]) {
      expect(() => ownEndpoint(state, other))
        .to.throw()
        .with.property("code", "webhook_endpoint_not_found");
    }
  });
});

describe("webhook delivery", () => {
  const data = { deliveryId: "d", endpointId };
  const failed: WebhookDeliveryEvent = { type: "WebhookDeliveryFailed", data: { ...data, attempts: 8 } };
  const skipped: WebhookDeliveryEvent = { type: "WebhookDeliverySkipped", data };
  const replay: WebhookDeliveryEvent = { type: "WebhookDeliveryReplayRequested", data };
  const onDelivery = (...history: WebhookDeliveryEvent[]) => given(deliveryAggregate, ...history);

  it("is replayed after it failed or was skipped, and after each failure again", () => {
    onDelivery(failed).when(decideReplay(endpointId)).thenEvents(replay);
    onDelivery(skipped).when(decideReplay(endpointId)).thenEvents(replay);
    onDelivery(failed, replay, failed).when(decideReplay(endpointId)).thenEvents(replay);
  });

  it("is not replayed while it is under way, when unknown, or by way of another endpoint", () => {
    onDelivery(failed, replay).when(decideReplay(endpointId)).thenRefused("delivery_not_replayable");
    onDelivery().when(decideReplay(endpointId)).thenRefused("delivery_not_replayable");
    onDelivery(failed).when(decideReplay("other")).thenRefused("delivery_not_replayable");
  });

  it("is not replayed when it is no longer kept", () => {
    const expired: WebhookDeliveryEvent = { type: "WebhookDeliveryExpired", data };
    onDelivery(failed, replay, expired).when(decideReplay(endpointId)).thenRefused("delivery_not_replayable");
  });
});
