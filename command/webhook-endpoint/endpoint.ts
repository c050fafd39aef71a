import type { Environment } from "../../shared/events/fields.ts";
import { type WebhookEventType, webhookEndpointCategory } from "../../shared/events/partner.ts";
import type { WebhookEndpointRecord } from "../../shared/partner-api/webhook-endpoint-record.ts";
import type { Instant } from "../../shared/time/rfc3339.ts";
import type { Aggregate } from "../handle.ts";

/** A webhook endpoint as its events tell it. Its secret is of no use to a decision. */
export interface Endpoint {
  id: string;
  applicationId: string;
  clinicId: string;
  environment: Environment;
  url: string;
  events: WebhookEventType[];
  status: "active" | "disabled" | "revoked";
  disabledReason: string | null;
  createdAt: Instant;
  updatedAt: Instant;
}

export const endpointAggregate: Aggregate<typeof webhookEndpointCategory, Endpoint> = {
  category: webhookEndpointCategory,
  evolve(state, event) {
    const at = event.metadata.occurredAt;
    if (event.type === "WebhookEndpointRegistered") {
      const { endpointId: id, secretId: _, encryptedSecret: __, ...registered } = event.data;
      const fresh = { status: "active", disabledReason: null, createdAt: at, updatedAt: at } as const;
      return { id, ...registered, ...fresh };
    }
    if (!state) return undefined;
    switch (event.type) {
      case "WebhookSecretRotated":
        return { ...state, updatedAt: at };
      case "WebhookEndpointTested":
        return state;
      // Disabling is reported by the dispatcher and may come late: it never brings a revoked endpoint back.
      case "WebhookEndpointDisabled":
        if (state.status !== "active") return state;
        return { ...state, status: "disabled", disabledReason: event.data.reason, updatedAt: at };
      case "WebhookEndpointEnabled":
        if (state.status !== "disabled") return state;
        return { ...state, status: "active", disabledReason: null, updatedAt: at };
      case "WebhookEndpointRevoked":
        return { ...state, status: "revoked", disabledReason: null, updatedAt: at };
    }
  },
};

/** An endpoint as partners see it. */
export function toEndpointRecord(endpoint: Endpoint): WebhookEndpointRecord {
  const { id, clinicId, url, events, status, disabledReason, createdAt, updatedAt } = endpoint;
  return { id, clinicId, url, events, status, disabledReason, createdAt, updatedAt };
}
