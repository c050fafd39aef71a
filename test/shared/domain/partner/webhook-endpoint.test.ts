import { expect } from "chai";
import type { WebhookEndpointEvent } from "../../../../shared/domain/events/partner.ts";
import * as endpointChanges from "../../../../shared/domain/partner/change-endpoint.ts";
import { MAX_HEADERS } from "../../../../shared/domain/partner/change-endpoint.ts";
import * as endpoints from "../../../../shared/domain/partner/webhook-endpoint.ts";
import { endpointAggregate, requireOwnEndpoint } from "../../../../shared/domain/partner/webhook-endpoint.ts";
import { given } from "../../../support/given.ts";

const endpointId = "e0000000-0000-4000-8000-000000000001";
const owner = { applicationId: "application", clinicId: "clinic", environment: "production" } as const;
const secret = { secretId: "one", encryptedSecret: "sealed" };
const registration = {
  ...{ endpointId, ...owner, ...secret },
  url: "https://hooks.example.com/",
  events: ["appointment.created" as const],
};
const registered: WebhookEndpointEvent = { type: "WebhookEndpointRegistered", data: registration };
const revoked: WebhookEndpointEvent = { type: "WebhookEndpointRevoked", data: { endpointId } };
const [north, south] = ["b1", "b2"];
const branchIds = [north, south];

const givenEndpoint = (...history: WebhookEndpointEvent[]) => given(endpointAggregate, registered, ...history);
const changed = (settings: object): WebhookEndpointEvent => ({
  type: "WebhookEndpointChanged",
  data: { endpointId, ...settings },
});
const disabled = (reason: "operator" | "partner" | "gone" | "no_success"): WebhookEndpointEvent => ({
  type: "WebhookEndpointDisabled",
  data: { endpointId, reason },
});
const enabled: WebhookEndpointEvent = { type: "WebhookEndpointEnabled", data: { endpointId } };
const header = (name: string, encryptedValue = `sealed ${name}`) => ({ name, encryptedValue });

describe("changes of a webhook endpoint", () => {
  it("the event of a change contains only the settings that changed", () => {
    const changes = {
      url: "https://hooks.example.com/new",
      events: ["appointment.updated" as const, "appointment.created" as const, "appointment.updated" as const],
      branchIds: [south, north, south],
      headers: { "X-Key": "sealed" },
      rateLimitPerSecond: 5,
    };
    const event = changed({
      url: "https://hooks.example.com/new",
      events: ["appointment.created", "appointment.updated"],
      branchIds: [north, south],
      headers: [header("X-Key", "sealed")],
      rateLimitPerSecond: 5,
    });
    givenEndpoint().whenOnce(endpointChanges.changeEndpoint(changes, branchIds), event);
    givenEndpoint(event).when(endpointChanges.changeEndpoint({ ...changes, rateLimitPerSecond: null }, branchIds), [
      changed({ rateLimitPerSecond: null }),
    ]);
    expect(givenEndpoint(event).state).to.deep.include({ status: "active", rateLimitPerSecond: 5 });
  });

  it("a change without settings changes nothing", () => {
    givenEndpoint().when(endpointChanges.changeEndpoint({}, []), []);
    givenEndpoint().when(
      endpointChanges.changeEndpoint({ branchIds: null, headers: {}, rateLimitPerSecond: null }, []),
      [],
    );
  });

  it("an endpoint receives at least one event type, of the clinic or about endpoints", () => {
    const operational = { events: [], operationalEvents: ["secret.expiring" as const, "endpoint.failing" as const] };
    const event = changed({ events: [], operationalEvents: ["endpoint.failing", "secret.expiring"] });
    givenEndpoint().when(endpointChanges.changeEndpoint(operational, []), [event]);
    givenEndpoint().when(endpointChanges.changeEndpoint({ events: [] }, []), "validation_failed");
    givenEndpoint(event).when(endpointChanges.changeEndpoint({ operationalEvents: [] }, []), "validation_failed");
    givenEndpoint(event).when(
      endpointChanges.changeEndpoint({ operationalEvents: [], events: ["appointment.updated"] }, []),
      [changed({ events: ["appointment.updated"], operationalEvents: [] })],
    );
  });

  it("an endpoint can be limited only to permitted branches", () => {
    givenEndpoint().when(endpointChanges.changeEndpoint({ branchIds: [north, south] }, [north]), "validation_failed");
    givenEndpoint(changed({ branchIds: [north] })).when(endpointChanges.changeEndpoint({ branchIds: null }, [south]), [
      changed({ branchIds: null }),
    ]);
  });

  it("headers are added, replaced and removed by name, regardless of case", () => {
    const history = changed({ headers: [header("X-One"), header("X-Two")] });
    givenEndpoint(history).when(
      endpointChanges.changeEndpoint({ headers: { "x-one": null, "x-two": "new", "X-Three": "sealed" } }, []),
      [changed({ headers: [header("x-two", "new"), header("X-Three", "sealed")] })],
    );
    givenEndpoint(history).when(endpointChanges.changeEndpoint({ headers: null }, []), [changed({ headers: [] })]);
  });

  it("the number of headers is limited after a change, not in the change", () => {
    const names = Array.from({ length: MAX_HEADERS }, (_, n) => `X-${n}`);
    const history = changed({ headers: names.map((name) => header(name)) });
    givenEndpoint(history).when(
      endpointChanges.changeEndpoint({ headers: { "X-New": "sealed" } }, []),
      "validation_failed",
    );
    givenEndpoint(history).when(endpointChanges.changeEndpoint({ headers: { "X-New": "sealed", "X-0": null } }, []), [
      changed({ headers: [...names.slice(1).map((name) => header(name)), header("X-New", "sealed")] }),
    ]);
  });

  it("an endpoint keeps its headers within an origin, and loses them with a change of the origin", () => {
    const history = changed({ headers: [header("X-Key")] });
    const sameOrigin = "https://hooks.example.com/other";
    const otherOrigin = "https://hooks.example.org/";
    givenEndpoint(history).when(endpointChanges.changeEndpoint({ url: sameOrigin }, []), [
      changed({ url: sameOrigin }),
    ]);
    givenEndpoint(history).when(endpointChanges.changeEndpoint({ url: otherOrigin }, []), [
      changed({ url: otherOrigin, headers: [] }),
    ]);
    givenEndpoint(history).when(
      endpointChanges.changeEndpoint({ url: otherOrigin, headers: { "X-Other": "sealed" } }, []),
      [changed({ url: otherOrigin, headers: [header("X-Other", "sealed")] })],
    );
  });

  it("a disabled endpoint can be changed, and a revoked or unknown endpoint cannot", () => {
    const decide = endpointChanges.changeEndpoint({ rateLimitPerSecond: 1 }, []);
    givenEndpoint(disabled("operator")).when(decide, [changed({ rateLimitPerSecond: 1 })]);
    givenEndpoint(revoked).when(decide, "webhook_endpoint_revoked");
    given(endpointAggregate).when(decide, "webhook_endpoint_not_found");
  });
});

describe("a partner's disabling and enabling of a webhook endpoint", () => {
  it("a partner can disable an endpoint and enable it again", () => {
    givenEndpoint().when(endpoints.disableEndpoint("partner"), [disabled("partner")]);
    givenEndpoint(disabled("gone")).when(endpoints.disableEndpoint("partner"), []);
    for (const reason of ["partner", "gone", "no_success"] as const)
      givenEndpoint(disabled(reason)).when(endpoints.enableOwnEndpoint, [enabled]);
    givenEndpoint().when(endpoints.enableOwnEndpoint, []);
    givenEndpoint(revoked).when(endpoints.enableOwnEndpoint, "webhook_endpoint_revoked");
  });

  it("a partner cannot enable an endpoint that the operator disabled, even if it was disabled before", () => {
    givenEndpoint(disabled("partner")).when(endpoints.disableEndpoint("operator"), [disabled("operator")]);
    const takenOver = givenEndpoint(disabled("partner"), disabled("operator"));
    expect(takenOver.state).to.include({ status: "disabled", disabledReason: "operator" });
    takenOver.when(endpoints.enableOwnEndpoint, "webhook_endpoint_disabled_by_operator");
    takenOver.when(endpoints.disableEndpoint("operator"), []);
    takenOver.when(endpoints.enableEndpoint, [enabled]);
    givenEndpoint(disabled("operator"), enabled).when(endpoints.enableOwnEndpoint, []);
  });
});

describe("webhook endpoint", () => {
  it("a webhook endpoint can be registered only once", () => {
    given(endpointAggregate).when(endpoints.registerEndpoint(registration), [registered]);
    givenEndpoint().when(endpoints.registerEndpoint(registration), "webhook_endpoint_exists");
  });

  it("disabling a disabled webhook endpoint or enabling an active webhook endpoint changes nothing", () => {
    givenEndpoint().when(endpoints.disableEndpoint("operator"), [disabled("operator")]);
    givenEndpoint(disabled("operator")).when(endpoints.disableEndpoint("gone"), []);
    givenEndpoint(disabled("operator")).when(endpoints.enableEndpoint, [enabled]);
    givenEndpoint().when(endpoints.enableEndpoint, []);
  });

  it("the secret of an active or disabled webhook endpoint can be rotated", () => {
    const rotation = { ...secret, previousExpiresAt: "2026-05-05T08:00:00.000Z" };
    const rotated = { type: "WebhookSecretRotated", data: { endpointId, ...rotation } } as const;
    givenEndpoint().when(endpoints.rotateSecret(rotation), [rotated]);
    givenEndpoint(disabled("operator")).when(endpoints.rotateSecret(rotation), [rotated]);
    givenEndpoint(revoked).when(endpoints.rotateSecret(rotation), "webhook_endpoint_revoked");
  });

  it("only an active webhook endpoint can be tested", () => {
    const tested: WebhookEndpointEvent = {
      type: "WebhookEndpointTested",
      data: { endpointId, applicationId: owner.applicationId, testId: "test" },
    };
    givenEndpoint().when(endpoints.testEndpoint("test"), [tested]);
    givenEndpoint(disabled("operator")).when(endpoints.testEndpoint("test"), "webhook_endpoint_disabled");
    givenEndpoint(revoked).when(endpoints.testEndpoint("test"), "webhook_endpoint_revoked");
    given(endpointAggregate).when(endpoints.testEndpoint("test"), "webhook_endpoint_not_found");
    expect(givenEndpoint(tested).state).to.deep.equal(givenEndpoint().state);
  });

  it("a revoked webhook endpoint stays revoked", () => {
    givenEndpoint().whenOnce(endpoints.revokeEndpoint, revoked);
    givenEndpoint(revoked).when(endpoints.enableEndpoint, "webhook_endpoint_revoked");
    givenEndpoint(revoked).when(endpoints.disableEndpoint("operator"), "webhook_endpoint_revoked");
    // The dispatcher may disable an endpoint just after its revocation.
    expect(givenEndpoint(revoked, disabled("operator"), enabled).state?.status).to.equal("revoked");
  });

  it("a webhook endpoint is reported as missing to everyone except the endpoint's owner", () => {
    const { state } = givenEndpoint();
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
