import { type Aggregate, type Decision, defineAggregate } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import type { DataOf } from "../events/category.ts";
import { type DisabledReason, type WebhookEndpointEvent, webhookEndpointStreams } from "../events/partner.ts";
import { refuseExisting, requireExisting } from "../preconditions.ts";

export interface Endpoint extends Omit<DataOf<WebhookEndpointEvent, "WebhookEndpointSummarized">, "endpointId"> {
  id: string;
}

export const endpointAggregate: Aggregate<typeof webhookEndpointStreams, Endpoint> = defineAggregate(
  webhookEndpointStreams,
  {
    WebhookEndpointRegistered: ({ endpointId: id, secretId: _, encryptedSecret: __, ...registration }, ___, at) => ({
      id,
      ...registration,
      operationalEvents: [],
      branchIds: null,
      headers: [],
      rateLimitPerSecond: null,
      ordering: "none",
      bodyFormat: "standard",
      asymmetricSignature: false,
      status: "active",
      disabledReason: null,
      ...{ enabledAt: at, createdAt: at, updatedAt: at },
    }),
    WebhookEndpointSummarized: ({ endpointId: id, ...settings }) => ({ id, ...settings }),
  },
  {
    WebhookSecretRotated: (_, __, updatedAt) => ({ updatedAt }),
    WebhookEndpointTested: () => ({}),
    WebhookEndpointFailureReported: () => ({}),
    WebhookSecretExpiryReported: () => ({}),
    WebhookEndpointChanged: ({ endpointId: _, ...changes }, __, updatedAt) => ({ ...changes, updatedAt }),
    // A failed attempt can disable an endpoint just after its revocation. The endpoint stays revoked.
    WebhookEndpointDisabled: ({ reason }, endpoint, updatedAt) =>
      changesDisabling(endpoint, reason) ? { status: "disabled", disabledReason: reason, updatedAt } : {},
    WebhookEndpointEnabled: (_, { status }, enabledAt) =>
      status === "disabled" ? { status: "active", disabledReason: null, enabledAt, updatedAt: enabledAt } : {},
    WebhookEndpointRevoked: (_, __, updatedAt) => ({ status: "revoked", disabledReason: null, updatedAt }),
  },
  {
    summarize: ({ id: endpointId, ...state }) => ({
      type: "WebhookEndpointSummarized",
      data: { endpointId, ...state },
    }),
  },
);

type EndpointDecision = Decision<Endpoint, WebhookEndpointEvent>;

/** Owner of an endpoint: an application in an environment. `clinicId` is null if the endpoint belongs to no clinic. */
export type EndpointOwner = Pick<Endpoint, "applicationId" | "clinicId" | "environment">;

export function registerEndpoint(data: DataOf<WebhookEndpointEvent, "WebhookEndpointRegistered">): EndpointDecision {
  return (state) => {
    refuseExisting(state, "webhook_endpoint");
    return [{ type: "WebhookEndpointRegistered", data: { ...data, events: [...new Set(data.events)] } }];
  };
}

export function rotateSecret(
  rotation: Omit<DataOf<WebhookEndpointEvent, "WebhookSecretRotated">, "endpointId">,
): EndpointDecision {
  return (state) => [{ type: "WebhookSecretRotated", data: { endpointId: requireNotRevoked(state).id, ...rotation } }];
}

export function disableEndpoint(reason: DisabledReason): EndpointDecision {
  return (state) => {
    const endpoint = requireNotRevoked(state);
    if (!changesDisabling(endpoint, reason)) return [];
    return [{ type: "WebhookEndpointDisabled", data: { endpointId: endpoint.id, reason } }];
  };
}

/**
 * Returns true if disabling an endpoint for a reason would change the endpoint. The operator can also disable an
 * endpoint that is already disabled for another reason, so that the partner cannot enable it.
 */
export function changesDisabling(
  { status, disabledReason }: { status: string; disabledReason: string | null },
  reason: DisabledReason,
): boolean {
  if (status === "disabled") return reason === "operator" && disabledReason !== "operator";
  return status === "active";
}

export const enableEndpoint: EndpointDecision = (state) => {
  const { id: endpointId, status } = requireNotRevoked(state);
  return status === "active" ? [] : [{ type: "WebhookEndpointEnabled", data: { endpointId } }];
};

/**
 * Enables an endpoint at the request of its partner.
 *
 * @throws {DomainError} `webhook_endpoint_disabled_by_operator`; only the operator can then enable the endpoint
 */
export const enableOwnEndpoint: EndpointDecision = (state) => {
  if (requireNotRevoked(state).disabledReason !== "operator") return enableEndpoint(state);
  throw new DomainError("webhook_endpoint_disabled_by_operator", "only the operator can enable the endpoint");
};

/** Requests the delivery of a test event to an active endpoint. */
export function testEndpoint(testId: string): EndpointDecision {
  return (state) => {
    const { id: endpointId, applicationId } = requireActiveEndpoint(state);
    return [{ type: "WebhookEndpointTested", data: { endpointId, applicationId, testId } }];
  };
}

/** Revokes an endpoint permanently. Revoking a revoked endpoint changes nothing. */
export const revokeEndpoint: EndpointDecision = (state) => {
  const { id: endpointId, status } = requireExisting(state, "webhook_endpoint");
  return status === "revoked" ? [] : [{ type: "WebhookEndpointRevoked", data: { endpointId } }];
};

/**
 * Requires that an endpoint exists and belongs to the owner. An endpoint of another owner is reported as missing.
 *
 * @throws {DomainError} `webhook_endpoint_not_found`
 */
export function requireOwnEndpoint(state: Endpoint | undefined, owner: EndpointOwner): Endpoint {
  const isOwn =
    state?.applicationId === owner.applicationId &&
    state.clinicId === owner.clinicId &&
    state.environment === owner.environment;
  return requireExisting(isOwn ? state : undefined, "webhook_endpoint");
}

/**
 * Requires that an endpoint exists and is active.
 *
 * @throws {DomainError} `webhook_endpoint_not_found`, `webhook_endpoint_disabled`, `webhook_endpoint_revoked`
 */
export function requireActiveEndpoint(state: Endpoint | undefined): Endpoint {
  const endpoint = requireNotRevoked(state);
  if (endpoint.status === "active") return endpoint;
  throw new DomainError("webhook_endpoint_disabled", "the webhook endpoint is disabled; enable it first");
}

/**
 * Requires that an endpoint exists and is not revoked.
 *
 * @throws {DomainError} `webhook_endpoint_not_found`, `webhook_endpoint_revoked`
 */
export function requireNotRevoked(state: Endpoint | undefined): Endpoint {
  const endpoint = requireExisting(state, "webhook_endpoint");
  if (endpoint.status !== "revoked") return endpoint;
  throw new DomainError("webhook_endpoint_revoked", "the webhook endpoint is revoked");
}
