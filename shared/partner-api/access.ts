import type Koa from "koa";
import { createUnauthorizedError, type VerifiedToken } from "../auth/access-token.ts";
import { type Environment, uuid } from "../domain/events/fields.ts";
import { deriveSandboxClinicId } from "../domain/events/ids.ts";
import type { Scope } from "../domain/events/partner.ts";
import type { Installation } from "../domain/partner/installation.ts";
import type { EndpointOwner } from "../domain/partner/webhook-endpoint.ts";
import { ApiError } from "../http/api-error.ts";
import type { RequestState } from "../http/app.ts";
import { listHeaderValues } from "../http/request.ts";
import type { PartnerOperation } from "./operations.ts";

/** Stored data about an application, the credential of its token, and its installation at the requested clinic. */
export interface AccessRecord {
  /** True if the application is registered in this environment, and neither application nor credential is revoked. */
  isCredentialActive: boolean;
  applicationScopes: Scope[];
  /**
   * Installation at the requested clinic; null if the clinic has not approved the application, has withdrawn the
   * approval, or belongs to the other environment.
   */
  installation: InstallationRecord | null;
  /** True if the branch header is absent, or names a branch of the clinic. */
  isBranchKnown: boolean;
}

export type InstallationRecord = Pick<Installation, "scopes" | "branchIds" | "animalAccess" | "rateLimitPerMinute">;

/** Key to look up a request's {@link AccessRecord}. */
export interface AccessQuery {
  applicationId: string;
  credentialId: string;
  environment: Environment;
  /** Clinic whose installation grants access; null if the request names no valid clinic. */
  clinicId: string | null;
  /** Branch that the branch header names; null if the header is absent, undefined if it is malformed or repeated. */
  branchId: string | null | undefined;
}

/**
 * Looks up the stored access data. The command service reads the event log or its cache, and the query-api service reads
 * the read models.
 */
export type FindAccess = (query: AccessQuery) => Promise<AccessRecord>;

/** State of a request with a valid token. */
export interface PartnerState extends RequestState {
  environment: Environment;
  applicationId: string;
  token: VerifiedToken;
  accessQuery: AccessQuery;
  /** Access data that the last check used; absent before the first check. */
  accessRecord?: AccessRecord;
}

export interface ClinicState extends PartnerState {
  clinicId: string;
  installation: InstallationRecord;
  /** Permitted branch that the branch header names; null if the header is absent. */
  branchId: string | null;
}

/** Returns true if the request concerns a clinic, and false if it concerns only the application. */
export function hasClinic<State extends PartnerState>(state: State): state is State & ClinicState {
  return "clinicId" in state;
}

/** Returns the owner of the requested webhook endpoints: the application at a clinic, or the application itself. */
export function toEndpointOwner(state: PartnerState): EndpointOwner {
  const { applicationId, environment } = state;
  return { applicationId, clinicId: hasClinic(state) ? state.clinicId : null, environment };
}

/**
 * Stores the verified token, its application and the {@link AccessQuery} in the state of a request.
 *
 * @param brand brand in header names, as in `X-<brand>-Clinic-ID`
 */
export function setCaller(
  ctx: Koa.ParameterizedContext<PartnerState>,
  operation: PartnerOperation,
  token: VerifiedToken,
  brand: string,
): void {
  const { applicationId, credentialId, environment } = token;
  const { requiresClinic, requiresSandbox } = operation;
  const headerClinicId = requiresClinic ? readUuidHeader(ctx, `X-${brand}-Clinic-ID`) : null;
  const clinicId = requiresSandbox ? deriveSandboxClinicId(applicationId) : (headerClinicId ?? null);
  const branchId = requiresClinic ? readUuidHeader(ctx, `X-${brand}-Branch-ID`) : null;
  const accessQuery = { applicationId, credentialId, environment, clinicId, branchId };
  Object.assign(ctx.state, { applicationId, environment, token, accessQuery });
}

/**
 * Authorizes a partner's request to an operation, and sets the context's state. Must run after {@link setCaller}. The
 * checks run in this order:
 *
 * 1. The token has not expired, and its credential is active (401).
 * 2. If the operation works on the sandbox, the environment is `sandbox` (403).
 * 3. Token and application have the operation's scope (403). If the operation concerns no clinic, the checks end here.
 * 4. The application has an installation at the clinic in the clinic header, or at its own sandbox (403).
 * 5. The installation has the scope (403).
 * 6. The branch header is absent, or names a branch of the clinic that the installation permits (403).
 *
 * @param accessRecord stored data for the request's {@link AccessQuery}
 */
export function requirePartnerAccess(
  ctx: Koa.ParameterizedContext<ClinicState>,
  operation: PartnerOperation,
  accessRecord: AccessRecord,
): void {
  const { token, environment } = ctx.state;
  const { requiresClinic, requiresSandbox } = operation;
  ctx.state.accessRecord = accessRecord;
  if (!accessRecord.isCredentialActive || token.expiresAt <= Date.now()) throw createUnauthorizedError("invalid_token");
  if (requiresSandbox && environment !== "sandbox") throw new ApiError(403, "sandbox_only");
  requireScope(operation.scope, token.scopes, accessRecord.applicationScopes);
  ctx.state.log.addFields({ applicationId: token.applicationId, environment });
  if (requiresClinic || requiresSandbox) {
    authorizeClinic(ctx, operation, accessRecord);
  }
}

function authorizeClinic(
  ctx: Koa.ParameterizedContext<ClinicState>,
  operation: PartnerOperation,
  { installation, isBranchKnown }: AccessRecord,
): void {
  const { clinicId, branchId } = ctx.state.accessQuery;
  if (!clinicId) throw new ApiError(403, "clinic_header_invalid");
  if (!installation) throw new ApiError(403, "installation_denied");
  requireScope(operation.scope, installation.scopes);
  const isBranchPermitted = branchId === null || installation.branchIds?.includes(branchId ?? "") !== false;
  if (branchId === undefined || !isBranchKnown || !isBranchPermitted) throw new ApiError(403, "branch_denied");
  ctx.state.clinicId = clinicId;
  ctx.state.installation = installation;
  ctx.state.branchId = branchId;
  ctx.state.log.addFields({ clinicId });
}

function requireScope(scope: Scope | null, ...grants: Scope[][]): void {
  if (scope !== null && !grants.every((grant) => grant.includes(scope))) {
    const challenge = `Bearer error="insufficient_scope", scope="${scope}"`;
    throw new ApiError(403, "insufficient_scope", { headers: { "WWW-Authenticate": challenge } });
  }
}

/**
 * Reads a header with a UUID.
 *
 * @returns null if the header is absent; undefined if it is malformed or repeated
 */
function readUuidHeader(ctx: Koa.ParameterizedContext, headerName: string): string | null | undefined {
  const values = listHeaderValues(ctx.req, headerName.toLowerCase());
  if (values.length === 0) return null;
  return values.length === 1 ? uuid.safeParse(values[0]).data : undefined;
}
