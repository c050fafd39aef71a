import { expect } from "chai";
import { readExamples } from "../../../query-api/docs/openapi.ts";
import { cloudEvents } from "../../../query-api/docs/webhooks.ts";
import type { WebhookEndpointEvent } from "../../../shared/domain/events/partner.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { formatWebhookBody } from "../../../shared/partner-api/cloud-event.ts";
import { toOperationalEvent } from "../../../shared/partner-api/webhook-body.ts";

const endpointId = "e0000000-0000-4000-8000-000000000001";
const registered: WebhookEndpointEvent = {
  type: "WebhookEndpointRegistered",
  data: {
    endpointId,
    applicationId: "application",
    clinicId: "clinic",
    environment: "sandbox",
    url: "https://hooks.example.com/",
    events: ["appointment.created"],
    secretId: "one",
    encryptedSecret: "sealed",
  },
};
const changed: WebhookEndpointEvent = {
  type: "WebhookEndpointChanged",
  data: { endpointId, url: "https://hooks.example.com/new" },
};
const disabled: WebhookEndpointEvent = {
  type: "WebhookEndpointDisabled",
  data: { endpointId, reason: "no_success" },
};
const revoked: WebhookEndpointEvent = { type: "WebhookEndpointRevoked", data: { endpointId } };
const expiring: WebhookEndpointEvent = {
  type: "WebhookSecretExpiryReported",
  data: { endpointId, secretId: "one", expiresAt: "2026-05-05T08:00:00.000Z" },
};

const toEvent = (...history: WebhookEndpointEvent[]) =>
  toOperationalEvent(
    history.map((event, index) => ({
      ...event,
      id: `event-${index}`,
      metadata: { occurredAt: "2026-05-04T08:00:00.000Z" },
    })) as unknown as RecordedEvent<WebhookEndpointEvent>[],
  );

describe("the operational event of an endpoint's event", () => {
  it("an operational event names the application, and the endpoint with its current URL", () => {
    expect(toEvent(registered, changed, disabled)).to.deep.equal({
      onlyApplicationId: "application",
      exceptEndpointId: endpointId,
      body: {
        id: "event-2",
        type: "endpoint.disabled",
        apiVersion: "v1",
        createdAt: "2026-05-04T08:00:00.000Z",
        environment: "sandbox",
        clinicId: "clinic",
        branchId: null,
        data: { endpoint: { id: endpointId, url: "https://hooks.example.com/new" }, reason: "no_success" },
      },
    });
  });

  it("the endpoint itself may receive the expiry of its secret", () => {
    expect(toEvent(registered, expiring)).to.include({ exceptEndpointId: null });
  });

  it("there is no operational event for other events, and for disabling a revoked endpoint", () => {
    for (const history of [[registered], [registered, changed], [registered, revoked, disabled], [disabled], []]) {
      expect(toEvent(...history)).to.equal(undefined);
    }
  });
});

const { events } = readExamples("partner");

describe("the formats of webhook bodies", () => {
  it("the standard format keeps the bytes of the body", () => {
    const body = '{"id": 1.0}';
    expect(formatWebhookBody(body, "standard")).to.deep.equal({ body, contentType: "application/json" });
  });

  for (const [type, event] of Object.entries(events)) {
    it(`a CloudEvent of the type ${type} has the same data and matches its documented schema`, () => {
      const { body } = formatWebhookBody(JSON.stringify(event), "cloudevents");
      const cloudEvent = JSON.parse(body);
      const matchingSchemas = Object.values(cloudEvents).filter((schema) => schema.safeParse(cloudEvent).success);
      expect(matchingSchemas).to.have.length(1);
      expect(cloudEvent.data).to.deep.equal((event as { data: unknown }).data);
      expect(Object.values(cloudEvent)).to.not.include(null);
    });
  }
});
