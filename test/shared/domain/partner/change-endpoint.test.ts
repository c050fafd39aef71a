import { expect } from "chai";
import type { WebhookEndpointEvent } from "../../../../shared/domain/events/partner.ts";
import * as endpointChanges from "../../../../shared/domain/partner/change-endpoint.ts";
import { MAX_HEADERS } from "../../../../shared/domain/partner/change-endpoint.ts";
import * as endpoints from "../../../../shared/domain/partner/webhook-endpoint.ts";
import { endpointAggregate } from "../../../../shared/domain/partner/webhook-endpoint.ts";
import { given } from "../../../support/given.ts";

const endpointId = "e0000000-0000-4000-8000-000000000001";
const registered: WebhookEndpointEvent = {
  type: "WebhookEndpointRegistered",
  data: {
    endpointId,
    applicationId: "application",
    clinicId: "clinic",
    environment: "production",
    url: "https://hooks.example.com/",
    events: ["appointment.created"],
    secretId: "one",
    encryptedSecret: "sealed",
  },
};
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
    givenEndpoint().when(endpointChanges.changeEndpoint(changes, branchIds), [event]);
    givenEndpoint(event).when(endpointChanges.changeEndpoint(changes, branchIds), []);
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
