import { type Aggregate, type Decision, defineAggregate } from "../aggregate.ts";
import { type Clinic, requireBranch } from "../clinic/clinic.ts";
import type { Membership } from "../clinic/membership.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type AnimalAccess, type InstallationEvent, installationStreams, type Scope } from "../events/partner.ts";
import { requireExisting } from "../preconditions.ts";
import { type Application, requireActiveApplication } from "./application.ts";

type Grant = DataOf<InstallationEvent, "InstallationApproved">;

/**
 * State of an installation: an application's access to one clinic. Before the approval, `scopes` contains the requested
 * scopes, and the application may see no animals.
 */
export interface Installation extends Omit<Grant, "installationId" | "approvedBy"> {
  id: string;
  status: "requested" | "approved" | "revoked";
}

export const DEFAULT_RATE_LIMIT_PER_MINUTE = 120;

export const installationAggregate: Aggregate<typeof installationStreams, Installation> = defineAggregate(
  installationStreams,
  {
    InstallationRequested: ({ installationId: id, ...request }) => ({
      ...{ id, ...request, branchIds: null, rateLimitPerMinute: DEFAULT_RATE_LIMIT_PER_MINUTE },
      ...{ animalAccess: "linked", status: "requested" },
    }),
    InstallationApproved: ({ installationId: id, approvedBy: _, ...grant }) => ({ id, ...grant, status: "approved" }),
  },
  {
    InstallationNarrowed: ({ installationId: _, ...grant }) => grant,
    InstallationRateLimitAgreed: ({ rateLimitPerMinute }) => ({ rateLimitPerMinute }),
    InstallationRevoked: () => ({ status: "revoked" }),
  },
);

type InstallationDecision = Decision<Installation, InstallationEvent>;

/**
 * Requests access to a clinic for an application. Clinic and application must have the same environment, and the
 * application must have the requested scopes.
 */
export function requestInstallation(
  request: { installationId: string; scopes: Scope[] },
  foundApplication: Application | undefined,
  clinic: Clinic,
): InstallationDecision {
  return (state) => {
    const application = requireActiveApplication(foundApplication);
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

/** By default, all requested scopes and all branches are approved. The administrator always chooses the animals. */
export type Approval = Pick<Grant, "animalAccess"> & {
  [Name in "scopes" | "branchIds" | "rateLimitPerMinute"]?: Grant[Name] | undefined;
};

/**
 * Approves the requested access to a clinic, or a part of that access.
 *
 * @param approver membership of the approving clinic administrator; null only in the sandbox, which needs no approval
 */
export function approveInstallation(
  approval: Approval,
  approver: Membership | null | undefined,
  clinic: Clinic,
): InstallationDecision {
  return (state) => {
    const installation = requireExisting(state, "installation");
    const { id: installationId, applicationId, clinicId, status, scopes: requestedScopes } = installation;
    const branchIds = approval.branchIds?.map((id) => requireBranch(clinic, id).id) ?? null;
    requireAdministrator(approver, clinic, branchIds);
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
export function narrowInstallation(narrowing: {
  scopes?: Scope[] | undefined;
  branchIds?: string[] | undefined;
  animalAccess?: AnimalAccess | undefined;
}): InstallationDecision {
  return (state) => {
    const { id: installationId, scopes, branchIds, animalAccess } = requireApproved(state);
    const granted = { scopes, branchIds, animalAccess };
    const grant = {
      scopes: requireGrantedScopes(narrowing.scopes ?? scopes, scopes),
      branchIds: narrowing.branchIds ?? branchIds,
      animalAccess: narrowing.animalAccess ?? animalAccess,
    };
    if (isWidened(grant, granted)) {
      throw new DomainError(
        "installation_widened",
        "the scopes, branches and animals of an installation can be reduced but not extended",
      );
    }
    return isEqual(grant, granted) ? [] : [{ type: "InstallationNarrowed", data: { installationId, ...grant } }];
  };
}

/**
 * Changes the access to a sandbox. If the new access is wider, the change is recorded as a new approval.
 *
 * @throws {DomainError} `validation_failed` with details if the clinic has no such branch
 */
export function changeSandboxAccess(access: Access, clinic: Clinic): InstallationDecision {
  return (state) => {
    const details = (access.branchIds ?? []).flatMap((id, index) =>
      clinic.branches.some((branch) => branch.id === id)
        ? []
        : [{ path: `branchIds.${index}`, message: "must be a branch of the clinic" }],
    );
    if (details.length > 0) throw new DomainError("validation_failed", "a branch is unknown", details);
    const { id: installationId, status: _, ...installation } = requireApproved(state);
    const { branchIds, animalAccess } = access;
    if (!isWidened(access, installation))
      return narrowInstallation({ animalAccess, branchIds: branchIds ?? undefined })(state);
    const data = { installationId, ...installation, approvedBy: null, branchIds, animalAccess };
    return [{ type: "InstallationApproved", data }];
  };
}

/** Permitted branches and animals. If `branchIds` is null, all branches are permitted. */
type Access = Pick<Installation, "branchIds" | "animalAccess">;

function isWidened({ branchIds, animalAccess }: Access, granted: Access): boolean {
  const hasMoreBranches = granted.branchIds !== null && !branchIds?.every((id) => granted.branchIds?.includes(id));
  return hasMoreBranches || (animalAccess === "all" && granted.animalAccess === "linked");
}

/**
 * Sets the agreed rate limit of an approved installation.
 *
 * @param rateLimitPerMinute requests per minute
 */
export function agreeRateLimit(rateLimitPerMinute: number): InstallationDecision {
  return (state) => {
    const installation = requireApproved(state);
    if (installation.rateLimitPerMinute === rateLimitPerMinute) return [];
    const data = { installationId: installation.id, rateLimitPerMinute };
    return [{ type: "InstallationRateLimitAgreed", data }];
  };
}

/** Revokes an installation. Revoking a revoked installation changes nothing. */
export function revokeInstallation(reason: string | null): InstallationDecision {
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
