import type Koa from "koa";
import { type Clinic, clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { uuid } from "../../shared/domain/events/fields.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import {
  type Endpoint,
  type EndpointOwner,
  refuseUnknownEndpoint,
} from "../../shared/domain/partner/webhook-endpoint.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import type { WebhookEndpointDetail, WebhookEndpointRecord } from "../../shared/partner-api/webhook-endpoint-record.ts";
import type { Decide } from "../handling/aggregate-cache.ts";
import type { CommandContext } from "../handling/handle.ts";
import { resolveSandbox } from "../operations/sandbox-operations.ts";
import type { EndpointReference } from "../operations/webhook-endpoint-operations.ts";
import type { LogPositionState } from "./expose-log-position.ts";

/** State of a write request after its clinic is loaded. */
export interface WriteState extends ClinicState, LogPositionState {
  clinic: Clinic;
  /** The sandbox that the clinic belongs to; null if the clinic is not a sandbox. */
  sandbox: Sandbox | null;
}

/**
 * Loads the clinic of the request. Returns 403 `installation_denied` for a clinic of another environment, and 403
 * `clinic_not_operational` if the operation requires an active clinic and the clinic is not active.
 *
 * @param requiresActiveClinic true for operations that add data. Operations that reduce or protect a partner's access,
 *   such as revoking an endpoint, do not require an active clinic
 */
export function loadClinic(log: EventLog, decide: Decide, requiresActiveClinic: boolean): Koa.Middleware<WriteState> {
  return async (ctx, next) => {
    const clinic = await decide(async (load) => {
      const { state } = await load(clinicAggregate, ctx.state.clinicId);
      if (state?.environment !== ctx.state.environment) throw new ApiError(403, "installation_denied");
      if (requiresActiveClinic && state.status !== "active") throw new ApiError(403, "clinic_not_operational");
      return state;
    });
    const clinicAndSandbox = await resolveSandbox(log, clinic);
    ctx.state.clinic = clinicAndSandbox.clinic;
    ctx.state.sandbox = clinicAndSandbox.sandbox;
    await next();
  };
}

/** Creates the command context of a partner's request. */
export function toCommandContext(state: ClinicState): CommandContext {
  const { applicationId, clinicId, environment, correlationId, now, traceparent } = state;
  const actor = { type: "application", id: applicationId } as const;
  return { actor, clinicId, environment, correlationId, causationId: correlationId, now, traceparent };
}

/** Context of a request with the path parameters that the router parsed. */
export type ContextWithParams<State> = Koa.ParameterizedContext<State> & { params?: Record<string, string> };

/** Returns the id in a path parameter; undefined if the parameter is not a UUID. */
export function readPathId<State>(ctx: ContextWithParams<State>, name: string): string | undefined {
  return uuid.safeParse(ctx.params?.[name]).data;
}

/** Returns the owner of the request's endpoints: the calling application at the request's clinic. */
export function toEndpointOwner({ applicationId, clinicId, environment }: ClinicState): EndpointOwner {
  return { applicationId, clinicId, environment };
}

/**
 * Returns the endpoint that the request's path names.
 *
 * @throws {DomainError} `webhook_endpoint_not_found` if the path has no valid id
 */
export function readEndpointReference(ctx: ContextWithParams<ClinicState>): EndpointReference {
  const endpointId = readPathId(ctx, "endpointId") ?? refuseUnknownEndpoint();
  return { endpointId, owner: toEndpointOwner(ctx.state) };
}

/** Converts an endpoint to its form in the partner API. */
export function toEndpointRecord(endpoint: Endpoint): WebhookEndpointRecord {
  const { id, clinicId, url, events, status, disabledReason, createdAt, updatedAt } = endpoint;
  return { id, clinicId, url, events, status, disabledReason, createdAt, updatedAt };
}

/** Converts an endpoint to its form with all settings. */
export function toEndpointDetail(endpoint: Endpoint): WebhookEndpointDetail {
  const { operationalEvents, branchIds, headers, rateLimitPerSecond, ordering, bodyFormat, asymmetricSignature } =
    endpoint;
  return {
    ...toEndpointRecord(endpoint),
    ...{ operationalEvents, branchIds, headerNames: headers.map(({ name }) => name) },
    ...{ rateLimitPerSecond, ordering, bodyFormat, asymmetricSignature },
  };
}
