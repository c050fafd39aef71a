import type { Environment } from "../../shared/events/fields.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { pathId, type WithParams } from "../partner/path-id.ts";
import { type EndpointOwner, unknownEndpoint } from "./decide-endpoint.ts";
import type { EndpointOf } from "./endpoint-operations.ts";

/** Whose endpoints a request is about: the calling application's, at the clinic it names. */
export function ownerOf(state: ClinicState): EndpointOwner {
  const { applicationId, clinicId, environment }: { environment: Environment } & EndpointOwner = state;
  return { applicationId, clinicId, environment };
}

/** @throws {DomainError} `webhook_endpoint_not_found` where the path names no id */
export function endpointOf(ctx: WithParams<ClinicState>): EndpointOf {
  return { endpointId: pathId(ctx, "endpointId") ?? unknownEndpoint(), owner: ownerOf(ctx.state) };
}
