import { expect } from "chai";
import type { WebhookEndpointEvent } from "../../../../shared/domain/events/partner.ts";
import { decideChangeEndpoint, MAX_HEADERS } from "../../../../shared/domain/partner/change-endpoint.ts";
import {
  decideDisableEndpoint,
  decideEnableEndpoint,
  decideEnableOwnEndpoint,
  endpointAggregate,
} from "../../../../shared/domain/partner/webhook-endpoint.ts";
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
    givenEndpoint().when(decideChangeEndpoint(changes, branchIds)).thenEvents(event);
    givenEndpoint(event).when(decideChangeEndpoint(changes, branchIds)).thenEvents();
    givenEndpoint(event)
      .when(decideChangeEndpoint({ ...changes, rateLimitPerSecond: null }, branchIds))
      .thenEvents(changed({ rateLimitPerSecond: null }));
    expect(givenEndpoint(event).state).to.deep.include({ status: "active", rateLimitPerSecond: 5 });
  });

  it("a change without settings changes nothing", () => {
    givenEndpoint().when(decideChangeEndpoint({}, [])).thenEvents();
    givenEndpoint()
      .when(decideChangeEndpoint({ branchIds: null, headers: {}, rateLimitPerSecond: null }, []))
      .thenEvents();
  });

  it("an endpoint receives at least one event type, of the clinic or about endpoints", () => {
    const operational = { events: [], operationalEvents: ["secret.expiring" as const, "endpoint.failing" as const] };
    const event = changed({ events: [], operationalEvents: ["endpoint.failing", "secret.expiring"] });
    givenEndpoint().when(decideChangeEndpoint(operational, [])).thenEvents(event);
    givenEndpoint()
      .when(decideChangeEndpoint({ events: [] }, []))
      .thenRefused("validation_failed");
    givenEndpoint(event)
      .when(decideChangeEndpoint({ operationalEvents: [] }, []))
      .thenRefused("validation_failed");
    givenEndpoint(event)
      .when(decideChangeEndpoint({ operationalEvents: [], events: ["appointment.updated"] }, []))
      .thenEvents(changed({ events: ["appointment.updated"], operationalEvents: [] }));
  });

  it("an endpoint can be limited only to permitted branches", () => {
    givenEndpoint()
      .when(decideChangeEndpoint({ branchIds: [north, south] }, [north]))
      .thenRefused("validation_failed");
    givenEndpoint(changed({ branchIds: [north] }))
      .when(decideChangeEndpoint({ branchIds: null }, [south]))
      .thenEvents(changed({ branchIds: null }));
  });

  it("headers are added, replaced and removed by name, regardless of case", () => {
    const history = changed({ headers: [header("X-One"), header("X-Two")] });
    givenEndpoint(history)
      .when(decideChangeEndpoint({ headers: { "x-one": null, "x-two": "new", "X-Three": "sealed" } }, []))
      .thenEvents(changed({ headers: [header("x-two", "new"), header("X-Three", "sealed")] }));
    givenEndpoint(history)
      .when(decideChangeEndpoint({ headers: null }, []))
      .thenEvents(changed({ headers: [] }));
  });

  it("the number of headers is limited after a change, not in the change", () => {
    const names = Array.from({ length: MAX_HEADERS }, (_, n) => `X-${n}`);
    const history = changed({ headers: names.map((name) => header(name)) });
    givenEndpoint(history)
      .when(decideChangeEndpoint({ headers: { "X-New": "sealed" } }, []))
      .thenRefused("validation_failed");
    givenEndpoint(history)
      .when(decideChangeEndpoint({ headers: { "X-New": "sealed", "X-0": null } }, []))
      .thenEvents(changed({ headers: [...names.slice(1).map((name) => header(name)), header("X-New", "sealed")] }));
  });

  it("an endpoint keeps its headers within an origin, and loses them with a change of the origin", () => {
    const history = changed({ headers: [header("X-Key")] });
    const sameOrigin = "https://hooks.example.com/other";
    const otherOrigin = "https://hooks.example.org/";
    givenEndpoint(history)
      .when(decideChangeEndpoint({ url: sameOrigin }, []))
      .thenEvents(changed({ url: sameOrigin }));
    givenEndpoint(history)
      .when(decideChangeEndpoint({ url: otherOrigin }, []))
      .thenEvents(changed({ url: otherOrigin, headers: [] }));
    givenEndpoint(history)
      .when(decideChangeEndpoint({ url: otherOrigin, headers: { "X-Other": "sealed" } }, []))
      .thenEvents(changed({ url: otherOrigin, headers: [header("X-Other", "sealed")] }));
  });

  it("a disabled endpoint can be changed, and a revoked or unknown endpoint cannot", () => {
    const decide = decideChangeEndpoint({ rateLimitPerSecond: 1 }, []);
    givenEndpoint(disabled("operator"))
      .when(decide)
      .thenEvents(changed({ rateLimitPerSecond: 1 }));
    givenEndpoint(revoked).when(decide).thenRefused("webhook_endpoint_revoked");
    given(endpointAggregate).when(decide).thenRefused("webhook_endpoint_not_found");
  });
});

describe("a partner's disabling and enabling of a webhook endpoint", () => {
  it("a partner can disable an endpoint and enable it again", () => {
    givenEndpoint().when(decideDisableEndpoint("partner")).thenEvents(disabled("partner"));
    givenEndpoint(disabled("gone")).when(decideDisableEndpoint("partner")).thenEvents();
    for (const reason of ["partner", "gone", "no_success"] as const) {
      givenEndpoint(disabled(reason)).when(decideEnableOwnEndpoint()).thenEvents(enabled);
    }
    givenEndpoint().when(decideEnableOwnEndpoint()).thenEvents();
    givenEndpoint(revoked).when(decideEnableOwnEndpoint()).thenRefused("webhook_endpoint_revoked");
  });

  it("a partner cannot enable an endpoint that the operator disabled, even if it was disabled before", () => {
    givenEndpoint(disabled("partner")).when(decideDisableEndpoint("operator")).thenEvents(disabled("operator"));
    const takenOver = givenEndpoint(disabled("partner"), disabled("operator"));
    expect(takenOver.state).to.include({ status: "disabled", disabledReason: "operator" });
    takenOver.when(decideEnableOwnEndpoint()).thenRefused("webhook_endpoint_disabled_by_operator");
    takenOver.when(decideDisableEndpoint("operator")).thenEvents();
    takenOver.when(decideEnableEndpoint()).thenEvents(enabled);
    givenEndpoint(disabled("operator"), enabled).when(decideEnableOwnEndpoint()).thenEvents();
  });
});
