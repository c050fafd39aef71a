import type Koa from "koa";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import { type Clinic, clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { uuid } from "../../shared/domain/events/fields.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { type Installation, installationAggregate } from "../../shared/domain/partner/installation.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { type ClinicState, hasClinic, type PartnerState, toEndpointOwner } from "../../shared/partner-api/access.ts";
import type { RateLimiter } from "../../shared/rate-limit/limiter.ts";
import type { WebhookKeySet } from "../../shared/webhooks/asymmetric-signature.ts";
import type { Decide, LoadAggregate } from "../handling/aggregate-cache.ts";
import type { CommandContext } from "../handling/handle.ts";
import type { LinkCodes } from "../operations/link-codes.ts";
import type { EndpointReference } from "../operations/webhook-endpoint-operations.ts";
import type { LogPositionState } from "./expose-log-position.ts";
import type { ReadModels } from "./read-models.ts";
import type { TokenSigner } from "./token-signer.ts";

/** Dependencies of the partner API's operations. */
export interface PartnerService extends ReadModels {
  log: EventLog;
  /** Runs decisions on the aggregates that grant access; see {@link Decide}. */
  decide: Decide;
  limiter: RateLimiter;
  secretBox: SecretBox;
  linkCodes: LinkCodes;
  tokenSigner: TokenSigner;
  webhookKeys: WebhookKeySet;
  /** If true, webhook endpoints may have loopback addresses. */
  allowsLoopback: boolean;
  /** DNS servers for the hosts of webhook endpoints, as `address:port`; default: the DNS servers of the machine. */
  dnsServers?: readonly string[] | undefined;
}

/**
 * State of a write request. Check {@link hasClinic} first: a request without a clinic has no `clinicId`, despite the
 * type.
 */
type WriteState = ClinicState & LogPositionState;

/** Context of a request, with the ids of its path. */
export type WriteContext = Koa.ParameterizedContext<WriteState> & { params?: Record<string, string> };

/** Response to a write. The declaration of the operation determines the status. */
export interface WriteResult {
  /** Log position that the read models must reach to reflect the write. */
  logPosition?: bigint | undefined;
  /** Members of the body besides `ok`. */
  body: object;
}

/** Handles an operation of the partner API. The function has the id of its operation as its name. */
export type WriteHandler = (
  service: PartnerService,
  ctx: WriteContext,
  context: CommandContext,
) => Promise<WriteResult>;

/**
 * Creates a middleware that requires an active clinic. It is for operations that add data. Operations that reduce or
 * protect a partner's access, such as revoking an endpoint, do not need it. Requests without a clinic pass. The
 * middleware throws {@link ApiError} 403 `clinic_not_operational`.
 */
export function requireActiveClinic(decide: Decide): Koa.Middleware<PartnerState> {
  return async ({ state }, next) => {
    if (hasClinic(state)) await decide((load) => loadActiveClinic(load, state.clinicId));
    await next();
  };
}

async function loadActiveClinic(load: LoadAggregate, clinicId: string): Promise<Clinic> {
  const { state } = await load(clinicAggregate, clinicId);
  if (state?.status !== "active") throw new ApiError(403, "clinic_not_operational");
  return state;
}

export interface DecisionContext {
  load: LoadAggregate;
  clinic: Clinic;
  installation: Installation;
}

/** Runs a decision that needs the active clinic and the installation of a request; see {@link Decide}. */
export function decideAtClinic<Result>(
  decide: Decide,
  { applicationId, clinicId }: ClinicState,
  decideWith: (context: DecisionContext) => Promise<Result>,
): Promise<Result> {
  return decide(async (load) => {
    const [clinic, { state: installation }] = await Promise.all([
      loadActiveClinic(load, clinicId),
      load(installationAggregate, deriveInstallationId(applicationId, clinicId)),
    ]);
    return decideWith({ load, clinic, installation: requireExisting(installation, "installation") });
  });
}

export function toCommandContext(state: PartnerState): CommandContext {
  const { correlationId, now, traceparent, signal } = state;
  const { applicationId, clinicId, environment } = toEndpointOwner(state);
  const actor = { type: "application", id: applicationId } as const;
  return { actor, clinicId, environment, correlationId, causationId: correlationId, now, traceparent, signal };
}

/** Returns the id in a path parameter; undefined if the parameter is not a UUID. */
export function readPathId({ params }: WriteContext, name: string): string | undefined {
  return uuid.safeParse(params?.[name]).data;
}

/**
 * Returns the endpoint that the request's path names.
 *
 * @throws {DomainError} `webhook_endpoint_not_found` if the path has no valid id
 */
export function readEndpointReference(ctx: WriteContext): EndpointReference {
  const endpointId = requireExisting(readPathId(ctx, "endpointId"), "webhook_endpoint");
  return { endpointId, owner: toEndpointOwner(ctx.state) };
}
