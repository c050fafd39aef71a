import type Koa from "koa";
import { type Clinic, clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { type Environment, uuid } from "../../shared/domain/events/fields.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import {
  type Endpoint,
  type EndpointOwner,
  refuseUnknownEndpoint,
} from "../../shared/domain/partner/webhook-endpoint.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import type { WebhookEndpointRecord } from "../../shared/partner-api/webhook-endpoint-record.ts";
import { type CommandContext, load } from "../handling/handle.ts";
import { withSandbox } from "../operations/sandbox-operations.ts";
import type { EndpointOf } from "../operations/webhook-endpoint-operations.ts";
import type { LogPositionState } from "./expose-log-position.ts";

/** State of a request whose clinic is loaded. */
export interface WriteState extends ClinicState, LogPositionState {
  clinic: Clinic;
  /** The sandbox, if the clinic is one; else null. */
  sandbox: Sandbox | null;
}

/** Loads the clinic of the request. A clinic of the other environment is 403 `installation_denied`. */
export function loadClinic(log: EventLog): Koa.Middleware<WriteState> {
  return async (ctx, next) => {
    const { state: clinic } = await load(log, clinicAggregate, ctx.state.clinicId);
    if (clinic?.environment !== ctx.state.environment) throw new ApiError(403, "installation_denied");
    const { clinic: current, sandbox } = await withSandbox(log, clinic);
    ctx.state.clinic = current;
    ctx.state.sandbox = sandbox;
    await next();
  };
}

/**
 * Requires an active clinic, for operations that add something: else 403 `clinic_not_operational`. Operations that
 * reduce or protect a partner's access, such as revoking an endpoint or rotating its secret, do not require it.
 */
export function requireOperationalClinic(): Koa.Middleware<WriteState> {
  return async (ctx, next) => {
    if (ctx.state.clinic.status !== "active") throw new ApiError(403, "clinic_not_operational");
    await next();
  };
}

/** Creates the command context of a partner's request. */
export function toCommandContext(state: ClinicState): CommandContext {
  const { applicationId, clinicId, environment, correlationId, now } = state;
  const actor = { type: "application", id: applicationId } as const;
  return { actor, clinicId, environment, correlationId, causationId: correlationId, now };
}

/** A request with the path parameters of the router. */
export type WithParams<State> = Koa.ParameterizedContext<State> & { params?: Record<string, string> };

/** Returns a path parameter that is an id; undefined if it is not a UUID. */
export function pathId<State>(ctx: WithParams<State>, name: string): string | undefined {
  return uuid.safeParse(ctx.params?.[name]).data;
}

/** Returns the owner of the request's endpoints: the calling application at the request's clinic. */
export function ownerOf(state: ClinicState): EndpointOwner {
  const { applicationId, clinicId, environment }: { environment: Environment } & EndpointOwner = state;
  return { applicationId, clinicId, environment };
}

/** @throws {DomainError} `webhook_endpoint_not_found` if the path has no valid id */
export function endpointOf(ctx: WithParams<ClinicState>): EndpointOf {
  return { endpointId: pathId(ctx, "endpointId") ?? refuseUnknownEndpoint(), owner: ownerOf(ctx.state) };
}

/** Converts an endpoint to its form in the partner API. */
export function toEndpointRecord(endpoint: Endpoint): WebhookEndpointRecord {
  const { id, clinicId, url, events, status, disabledReason, createdAt, updatedAt } = endpoint;
  return { id, clinicId, url, events, status, disabledReason, createdAt, updatedAt };
}
