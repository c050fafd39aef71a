import type { Environment } from "../../shared/domain/events/fields.ts";
import type { Endpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import { type EndpointOwner, unknownEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import type { WebhookEndpointRecord } from "../../shared/partner-api/webhook-endpoint-record.ts";
import type { EndpointOf } from "../operations/endpoint-operations.ts";
import { pathId, type WithParams } from "./path-id.ts";

/** Whose endpoints a request is about: the calling application's, at the clinic it names. */
export function ownerOf(state: ClinicState): EndpointOwner {
  const { applicationId, clinicId, environment }: { environment: Environment } & EndpointOwner = state;
  return { applicationId, clinicId, environment };
}

/** @throws {DomainError} `webhook_endpoint_not_found` where the path names no id */
export function endpointOf(ctx: WithParams<ClinicState>): EndpointOf {
  return { endpointId: pathId(ctx, "endpointId") ?? unknownEndpoint(), owner: ownerOf(ctx.state) };
}

/** An endpoint as partners see it. */
export function toEndpointRecord(endpoint: Endpoint): WebhookEndpointRecord {
  const { id, clinicId, url, events, status, disabledReason, createdAt, updatedAt } = endpoint;
  return { id, clinicId, url, events, status, disabledReason, createdAt, updatedAt };
}
