import type Koa from "koa";
import { type Clinic, clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { type Environment, uuid } from "../../shared/domain/events/fields.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import {
  type Endpoint,
  type EndpointOwner,
  unknownEndpoint,
} from "../../shared/domain/partner/webhook-endpoint.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import type { WebhookEndpointRecord } from "../../shared/partner-api/webhook-endpoint-record.ts";
import { type CommandContext, load } from "../handling/handle.ts";
import { withSandbox } from "../operations/sandbox-operations.ts";
import type { EndpointOf } from "../operations/webhook-endpoint-operations.ts";
import type { LogPositionState } from "./expose-log-position.ts";

/** A request whose clinic is known. */
export interface WriteState extends ClinicState, LogPositionState {
  clinic: Clinic;
  /** The sandbox that the clinic is; null for every other clinic. */
  sandbox: Sandbox | null;
}

/** Looks the request's clinic up. One of the other environment is 403 `installation_denied`. */
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
 * Refuses what brings something new to a clinic that is suspended or closed: 403 `clinic_not_operational`. What makes
 * a partner's access safer or less, such as revoking an endpoint or rotating its secret, does not ask for this.
 */
export function requireOperationalClinic(): Koa.Middleware<WriteState> {
  return async (ctx, next) => {
    if (ctx.state.clinic.status !== "active") throw new ApiError(403, "clinic_not_operational");
    await next();
  };
}

/** What a partner's request leaves in the metadata of its events. */
export function toCommandContext(state: ClinicState): CommandContext {
  const { applicationId, clinicId, environment, correlationId, now } = state;
  const actor = { type: "application", id: applicationId } as const;
  return { actor, clinicId, environment, correlationId, causationId: correlationId, now };
}

/** A request whose path the router has read. */
export type WithParams<State> = Koa.ParameterizedContext<State> & { params?: Record<string, string> };

/** The id in that part of the path; undefined where it is no UUID: nothing can be there. */
export function pathId<State>(ctx: WithParams<State>, name: string): string | undefined {
  return uuid.safeParse(ctx.params?.[name]).data;
}

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
