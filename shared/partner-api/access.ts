import type Koa from "koa";
import type { TokenVerifier } from "../auth/access-token.ts";
import { type Environment, uuid } from "../domain/events/fields.ts";
import { sandboxClinicId } from "../domain/events/ids.ts";
import type { Scope } from "../domain/events/partner.ts";
import { ApiError } from "../http/api-error.ts";
import type { RequestState } from "../http/app.ts";
import type { PartnerOperation } from "./operations.ts";

/** What is on record about an application, the credential in use and its installation at the clinic asked for. */
export interface AccessRecord {
  /** The application is registered in this environment and neither it nor the credential is revoked. */
  credentialLive: boolean;
  applicationScopes: Scope[];
  /** Null where the clinic has not approved the application, or no longer does. */
  installation: InstallationRecord | null;
}

export interface InstallationRecord {
  scopes: Scope[];
  /** Null: every branch of the clinic. */
  branchIds: string[] | null;
  rateLimitPerMinute: number;
}

/** Finds what is on record; the command side asks the log, the query side the read models. */
export type FindAccess = (asked: {
  applicationId: string;
  credentialId: string;
  environment: Environment;
  clinicId: string | null;
}) => Promise<AccessRecord>;

/** A partner's request that was let through. */
export interface PartnerState extends RequestState {
  environment: Environment;
  /** Known as soon as the token is verified. */
  applicationId: string;
}

/** …and that names a clinic. */
export interface ClinicState extends PartnerState {
  clinicId: string;
  installation: InstallationRecord;
  /** From the optional branch header; within the installation. */
  branchId: string | null;
}

/**
 * Lets a partner's request through to an operation, or refuses it: a live token of this environment (401), the
 * operation's scope in the token, the application and the installation, an installation at the clinic that the
 * header names, and a branch header within the installation (403 each). Operations on the sandbox name no clinic: it is
 * the application's own. Everything is looked up at every request, so that a revocation holds from the next one on.
 *
 * @param brand the segment of the header names
 */
export function partnerAccess(
  operation: PartnerOperation,
  environment: Environment,
  using: { verify: TokenVerifier; findAccess: FindAccess; brand: string },
): Koa.Middleware<ClinicState> {
  return async (ctx, next) => {
    const token = await using.verify(ctx.req.headersDistinct.authorization ?? [], environment);
    const { applicationId, credentialId } = token;
    ctx.state.applicationId = applicationId;
    const named = operation.clinic ? singleUuid(ctx, `X-${using.brand}-Clinic-ID`) : null;
    const clinicId = operation.sandbox ? sandboxClinicId(applicationId) : named;
    const found = await using.findAccess({
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
      enterClinic(ctx, operation, clinicId, found.installation, using.brand);
    }
    await next();
  };
}

function enterClinic(
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

/** @returns the header's UUID, null where it is absent, undefined where it is malformed or given more than once */
function singleUuid(ctx: Koa.ParameterizedContext, header: string): string | null | undefined {
  const given = ctx.req.headersDistinct[header.toLowerCase()];
  if (given === undefined) return null;
  return given.length === 1 ? uuid.safeParse(given[0]).data : undefined;
}
