import type { WebhookReplayEvent } from "../../../../shared/domain/events/partner.ts";
import { type Endpoint, endpointAggregate } from "../../../../shared/domain/partner/webhook-endpoint.ts";
import * as replays from "../../../../shared/domain/partner/webhook-replay.ts";
import { replayAggregate } from "../../../../shared/domain/partner/webhook-replay.ts";
import { given } from "../../../support/given.ts";

const request = {
  ...{ replayId: "replay", endpointId: "endpoint", applicationId: "application", clinicId: "clinic" },
  environment: "production" as const,
  ...{ since: null, until: "2026-05-04T08:00:00.000Z", deliveryIds: ["delivery"], requestHash: "0".repeat(64) },
  statuses: ["failed" as const, "skipped" as const],
};
const requested: WebhookReplayEvent = { type: "WebhookReplayRequested", data: request };
const completed: WebhookReplayEvent = {
  type: "WebhookReplayCompleted",
  data: { replayId: "replay", endpointId: "endpoint", outcome: "stopped", replayedCount: 0, notReplayedCount: 0 },
};

describe("webhook replay of one delivery", () => {
  const decide = replays.replayDelivery(request);

  it("a replay of one delivery is requested once, and refused while it waits", () => {
    given(replayAggregate).when(decide, [requested]);
    given(replayAggregate, requested).when(decide, "delivery_not_replayable");
  });

  it("a request for a replay that has ended changes nothing, so that the next replay can be requested", () => {
    given(replayAggregate, requested, completed).when(decide, []);
  });
});

describe("webhook replay of several deliveries", () => {
  const registration = { secretId: "one", encryptedSecret: "sealed", url: "https://hooks.example.com/", events: [] };
  const active = given(endpointAggregate, { type: "WebhookEndpointRegistered", data: { ...request, ...registration } });
  const endpoint = active.state as Endpoint;
  const disabledEndpoint: Endpoint = { ...endpoint, status: "disabled", disabledReason: "operator" };

  it("a replay is requested for an active endpoint, and a repeated request changes nothing, even if the endpoint was disabled", () => {
    given(replayAggregate).when(replays.requestReplay(request, endpoint), [requested]);
    given(replayAggregate).when(replays.requestReplay(request, disabledEndpoint), "webhook_endpoint_disabled");
    given(replayAggregate, requested).when(replays.requestReplay(request, disabledEndpoint), []);
  });

  it("another request with the same idempotency key is refused", () => {
    const decide = replays.requestReplay({ ...request, requestHash: "1".repeat(64) }, endpoint);
    given(replayAggregate, requested).when(decide, "idempotency_conflict");
  });
});
