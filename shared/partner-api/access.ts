import type Koa from "koa";
import type { TokenVerifier } from "../auth/access-token.ts";
import { type Environment, uuid } from "../domain/events/fields.ts";
import { sandboxClinicId } from "../domain/events/ids.ts";
import type { Scope } from "../domain/events/partner.ts";
import { ApiError } from "../http/api-error.ts";
import type { RequestState } from "../http/app.ts";
import type { PartnerOperation } from "./operations.ts";

/** Stored data about an application, the credential in use, and its installation at the requested clinic. */
export interface AccessRecord {
  /** True if the application is registered in this environment, and neither it nor the credential is revoked. */
  credentialLive: boolean;
  applicationScopes: Scope[];
  /** Null if the clinic has not approved the application, or has withdrawn its approval. */
  installation: InstallationRecord | null;
}

export interface InstallationRecord {
  scopes: Scope[];
  /** Null: all branches of the clinic. */
  branchIds: string[] | null;
  rateLimitPerMinute: number;
}

/** Looks up the stored data: command reads the log, query-api the read models. */
export type FindAccess = (query: {
  applicationId: string;
  credentialId: string;
  environment: Environment;
  clinicId: string | null;
}) => Promise<AccessRecord>;

/** State of an authorized partner request. */
export interface PartnerState extends RequestState {
  environment: Environment;
  /** Set as soon as the token is verified. */
  applicationId: string;
}

/** State of an authorized partner request to a clinic. */
export interface ClinicState extends PartnerState {
  clinicId: string;
  installation: InstallationRecord;
  /** Branch of the optional branch header; it belongs to the installation. */
  branchId: string | null;
}

/**
 * Authorizes a partner's request to an operation. Checks in this order:
 *
 * 1. a valid token of this environment with a live credential (401);
 * 2. the operation's scope in token and application (403);
 * 3. an installation at the clinic that the header names, or at the application's own sandbox (403);
 * 4. the scope in the installation, and a branch header within it (403).
 *
 * Everything is looked up at every request, so a revocation takes effect from the next request on.
 *
 * @param dependencies.brand brand segment of the header names
 */
export function partnerAccess(
  operation: PartnerOperation,
  environment: Environment,
  dependencies: { verify: TokenVerifier; findAccess: FindAccess; brand: string },
): Koa.Middleware<ClinicState> {
  return async (ctx, next) => {
    const token = await dependencies.verify(ctx.req.headersDistinct.authorization ?? [], environment);
    const { applicationId, credentialId } = token;
    ctx.state.applicationId = applicationId;
    const headerClinicId = operation.clinic ? singleUuid(ctx, `X-${dependencies.brand}-Clinic-ID`) : null;
    const clinicId = operation.sandbox ? sandboxClinicId(applicationId) : headerClinicId;
    const found = await dependencies.findAccess({
      applicationId,
      credentialId,
      environment,
      clinicId: clinicId ?? null,
    });
    if (!found.credentialLive) {
      throw new ApiError(401, "invalid_token", {
        headers: { "WWW-Authenticate": 'Bearer error="invalid_token"' },
      });
    }
    if (operation.sandbox && environment !== "sandbox") throw new ApiError(403, "sandbox_only");
    requireScope(operation.scope, token.scopes, found.applicationScopes);
    ctx.state.environment = environment;
    ctx.state.log = ctx.state.log.child({ applicationId, environment });
    if (operation.clinic || operation.sandbox) {
      authorizeClinic(ctx, operation, clinicId, found.installation, dependencies.brand);
    }
    await next();
  };
}

function authorizeClinic(
  ctx: Koa.ParameterizedContext<ClinicState>,
  operation: PartnerOperation,
  clinicId: string | null | undefined,
  installation: InstallationRecord | null,
  brand: string,
): void {
  if (!clinicId) throw new ApiError(403, "clinic_header_invalid");
  if (!installation) throw new ApiError(403, "installation_denied");
  requireScope(operation.scope, installation.scopes);
  const branchId = operation.sandbox ? null : singleUuid(ctx, `X-${brand}-Branch-ID`);
  const permitted = branchId === null || installation.branchIds?.includes(branchId ?? "") !== false;
  if (branchId === undefined || !permitted) throw new ApiError(403, "branch_denied");
  ctx.state.clinicId = clinicId;
  ctx.state.installation = installation;
  ctx.state.branchId = branchId;
  ctx.state.log = ctx.state.log.child({ clinicId });
}

function requireScope(scope: Scope | null, ...grants: Scope[][]): void {
  if (scope !== null && !grants.every((grant) => grant.includes(scope))) {
    throw new ApiError(403, "insufficient_scope");
  }
}

/** @returns the header's UUID; null if it is absent; undefined if it is malformed or repeated */
function singleUuid(ctx: Koa.ParameterizedContext, header: string): string | null | undefined {
  const given = ctx.req.headersDistinct[header.toLowerCase()];
  if (given === undefined) return null;
  return given.length === 1 ? uuid.safeParse(given[0]).data : undefined;
}
