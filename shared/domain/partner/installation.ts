import type { Aggregate, Decision } from "../aggregate.ts";
import { type Clinic, requireBranch } from "../clinic/clinic.ts";
import type { Membership } from "../clinic/membership.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import { type AnimalAccess, type InstallationEvent, installationStreams, type Scope } from "../events/partner.ts";
import { requireExisting } from "../preconditions.ts";
import type { Application } from "./application.ts";

/** State of an installation: an application's access to one clinic. */
export interface Installation {
  id: string;
  applicationId: string;
  clinicId: string;
  status: "requested" | "approved" | "revoked";
  /** Requested scopes before the approval, and granted scopes after the approval. */
  scopes: Scope[];
  /** Permitted branches; null for all branches of the clinic. */
  branchIds: string[] | null;
  /** Animals whose data the application may see. No animals before the approval, as without links. */
  animalAccess: AnimalAccess;
  rateLimitPerMinute: number;
}

/** Default rate limit, in requests per minute. */
export const DEFAULT_RATE_LIMIT_PER_MINUTE = 120;

export const installationAggregate: Aggregate<typeof installationStreams, Installation> = {
  category: installationStreams,
  evolve(state, event) {
    switch (event.type) {
      case "InstallationRequested": {
        const { installationId: id, ...request } = event.data;
        const defaults = {
          branchIds: null,
          animalAccess: "linked",
          rateLimitPerMinute: DEFAULT_RATE_LIMIT_PER_MINUTE,
        } as const;
        return { id, ...request, ...defaults, status: "requested" };
      }
      case "InstallationApproved": {
        const { installationId: id, approvedBy: _, ...grant } = event.data;
        return { id, ...grant, status: "approved" };
      }
    }
    if (!state) return undefined;
    switch (event.type) {
      case "InstallationNarrowed": {
        const { scopes, branchIds, animalAccess } = event.data;
        return { ...state, scopes, branchIds, animalAccess };
      }
      case "InstallationRateLimitAgreed":
        return { ...state, rateLimitPerMinute: event.data.rateLimitPerMinute };
      case "InstallationRevoked":
        return { ...state, status: "revoked" };
    }
  },
};

type InstallationDecision = Decision<Installation, InstallationEvent>;

/**
 * Requests access to a clinic for an application. Clinic and application must have the same environment, and the
 * application must have the requested scopes.
 */
export function decideRequestInstallation(
  request: { installationId: string; scopes: Scope[] },
  foundApplication: Application | undefined,
  clinic: Clinic,
): InstallationDecision {
  return (state) => {
    const application = requireExisting(foundApplication, "application");
    if (application.revoked) throw new DomainError("application_revoked", "the application is revoked");
    if (application.environment !== clinic.environment) {
      throw new DomainError("environment_mismatch", "the application and the clinic belong to different environments");
    }
    if (clinic.sandboxOf !== null && clinic.sandboxOf !== application.id) {
      throw new DomainError("clinic_is_a_sandbox", "a sandbox can only be used by its own application");
    }
    const scopes = requireGrantedScopes(request.scopes, application.scopes);
    if (state && state.status !== "revoked") {
      if (isEqual(state.scopes, scopes)) return [];
      throw new DomainError("installation_exists", "the application has already requested access to this clinic");
    }
    const { installationId } = request;
    const data = { installationId, applicationId: application.id, clinicId: clinic.id, scopes };
    return [{ type: "InstallationRequested", data }];
  };
}

export interface Approval {
  /** Approved scopes. Undefined approves all requested scopes. */
  scopes?: Scope[] | undefined;
  /** Approved branches. Undefined or null approves all branches of the clinic. */
  branchIds?: string[] | null | undefined;
  /** Animals whose data the application may see. The administrator always chooses. */
  animalAccess: AnimalAccess;
  /** Rate limit, in requests per minute. */
  rateLimitPerMinute?: number | undefined;
}

/**
 * Approves the requested access to a clinic, or a part of that access.
 *
 * @param approver membership of the approving clinic administrator; null only in the sandbox, which needs no approval
 */
export function decideApproveInstallation(
  approval: Approval,
  approver: Membership | null | undefined,
  clinic: Clinic,
): InstallationDecision {
  return (state) => {
    const installation = requireExisting(state, "installation");
    const { id: installationId, applicationId, clinicId, status, scopes: requestedScopes } = installation;
    const branchIds = approval.branchIds?.map((id) => requireBranch(clinic, id).id) ?? null;
    requireAdministrator(approver, clinic, branchIds);
    requireAtLeastOneBranch(branchIds);
    if (status === "approved") throw new DomainError("installation_approved", "the installation is already approved");
    if (status === "revoked")
      throw new DomainError("installation_revoked", "the installation is revoked; request access again");
    const scopes = requireGrantedScopes(approval.scopes ?? requestedScopes, requestedScopes);
    const rateLimitPerMinute = approval.rateLimitPerMinute ?? DEFAULT_RATE_LIMIT_PER_MINUTE;
    const approvedBy = approver?.userId ?? null;
    const { animalAccess } = approval;
    const data = { installationId, applicationId, clinicId, approvedBy, rateLimitPerMinute, animalAccess };
    return [{ type: "InstallationApproved", data: { ...data, scopes, branchIds } }];
  };
}

/** Reduces the scopes, branches or animals of an installation. Omitted values remain unchanged. */
export function decideNarrowInstallation(narrowing: {
  scopes?: Scope[] | undefined;
  branchIds?: string[] | undefined;
  animalAccess?: AnimalAccess | undefined;
}): InstallationDecision {
  return (state) => {
    const { id: installationId, ...granted } = requireApproved(state);
    const { scopes: grantedScopes, branchIds: permittedBranchIds } = granted;
    const scopes = requireGrantedScopes(narrowing.scopes ?? grantedScopes, grantedScopes);
    const branchIds = narrowing.branchIds ?? permittedBranchIds;
    const animalAccess = narrowing.animalAccess ?? granted.animalAccess;
    requireAtLeastOneBranch(branchIds);
    if (isWidened({ branchIds, animalAccess }, granted)) {
      throw new DomainError(
        "installation_widened",
        "the scopes, branches and animals of an installation can be reduced but not extended",
      );
    }
    const grant = { scopes, branchIds, animalAccess };
    const grantBefore = { scopes: grantedScopes, branchIds: permittedBranchIds, animalAccess: granted.animalAccess };
    if (isEqual(grant, grantBefore)) return [];
    return [{ type: "InstallationNarrowed", data: { installationId, ...grant } }];
  };
}

/**
 * Changes the access to a sandbox. If the application then sees more, the installation is approved again.
 *
 * @throws {DomainError} `validation_failed` with details if the clinic has no such branch
 */
export function decideChangeSandboxAccess(access: Access, clinic: Clinic): InstallationDecision {
  return (state) => {
    const details = (access.branchIds ?? []).flatMap((id, index) =>
      clinic.branches.some((branch) => branch.id === id)
        ? []
        : [{ path: `branchIds.${index}`, message: "must be a branch of the clinic" }],
    );
    if (details.length > 0) throw new DomainError("validation_failed", "a branch is unknown", details);
    const {
      id: installationId,
      applicationId,
      clinicId,
      scopes,
      rateLimitPerMinute,
      ...granted
    } = requireApproved(state);
    const { animalAccess } = access;
    if (!isWidened(access, granted))
      return decideNarrowInstallation({ animalAccess, branchIds: access.branchIds ?? undefined })(state);
    const data = { installationId, applicationId, clinicId, scopes, rateLimitPerMinute, approvedBy: null, ...access };
    return [{ type: "InstallationApproved", data }];
  };
}

interface Access {
  /** Null for all branches. */
  branchIds: string[] | null;
  animalAccess: AnimalAccess;
}

function isWidened({ branchIds, animalAccess }: Access, granted: Access): boolean {
  const hasMoreBranches = granted.branchIds !== null && !branchIds?.every((id) => granted.branchIds?.includes(id));
  return hasMoreBranches || (animalAccess === "all" && granted.animalAccess === "linked");
}

/**
 * Sets the agreed rate limit of an approved installation.
 *
 * @param rateLimitPerMinute requests per minute
 */
export function decideAgreeRateLimit(rateLimitPerMinute: number): InstallationDecision {
  return (state) => {
    const installation = requireApproved(state);
    if (installation.rateLimitPerMinute === rateLimitPerMinute) return [];
    const data = { installationId: installation.id, rateLimitPerMinute };
    return [{ type: "InstallationRateLimitAgreed", data }];
  };
}

/** Revokes an installation. Revoking a revoked installation changes nothing. */
export function decideRevokeInstallation(reason: string | null): InstallationDecision {
  return (state) => {
    const { id: installationId, status } = requireExisting(state, "installation");
    return status === "revoked" ? [] : [{ type: "InstallationRevoked", data: { installationId, reason } }];
  };
}

function requireAdministrator(
  approver: Membership | null | undefined,
  clinic: Clinic,
  branchIds: string[] | null,
): void {
  if (approver === null && clinic.environment === "sandbox") return;
  const isAdministrator =
    approver?.clinicId === clinic.id &&
    approver.status === "active" &&
    approver.rights.permissions.includes("manage_tenant");
  if (!isAdministrator)
    throw new DomainError(
      "not_an_administrator",
      "the approver must be an active member of the clinic with permission manage_tenant",
    );
  const { branchAccess, branchIds: ownBranchIds } = approver.rights;
  if (branchAccess === "scoped" && !branchIds?.every((id) => ownBranchIds.includes(id)))
    throw new DomainError(
      "branches_not_granted",
      `the approver has access to some branches only; name at least one of ${ownBranchIds.join(", ")}, and no other`,
    );
}

function requireAtLeastOneBranch(branchIds: string[] | null): void {
  if (branchIds?.length === 0) {
    throw new DomainError(
      "branches_missing",
      "at least one branch is required; to remove all access, revoke the installation",
    );
  }
}

function requireGrantedScopes(requestedScopes: readonly Scope[], grantedScopes: readonly Scope[]): Scope[] {
  if (requestedScopes.length === 0 || !requestedScopes.every((scope) => grantedScopes.includes(scope))) {
    throw new DomainError("scope_not_granted", "at least one scope is required, and all must be granted");
  }
  return grantedScopes.filter((scope) => requestedScopes.includes(scope));
}

/**
 * Requires that an installation is approved.
 *
 * @throws {DomainError} `installation_not_approved`
 */
export function requireApproved(state: Installation | undefined): Installation {
  const installation = requireExisting(state, "installation");
  if (installation.status === "approved") return installation;
  throw new DomainError("installation_not_approved", "the installation is not approved");
}
