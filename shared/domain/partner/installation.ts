import type { Aggregate, Decision } from "../aggregate.ts";
import { branchOf, type Clinic } from "../clinic/clinic.ts";
import type { Membership } from "../clinic/membership.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import { type InstallationEvent, installationCategory, type Scope } from "../events/partner.ts";
import { requireExisting } from "../preconditions.ts";
import type { Application } from "./application.ts";

/** An application's access to one clinic, as its events tell it. */
export interface Installation {
  id: string;
  applicationId: string;
  clinicId: string;
  status: "requested" | "approved" | "revoked";
  /** Asked for while requested, granted from the approval on. */
  scopes: Scope[];
  /** Null: every branch of the clinic. */
  branchIds: string[] | null;
  rateLimitPerMinute: number;
}

/** Requests a minute where nothing else was agreed. */
export const DEFAULT_RATE_LIMIT = 120;

export const installationAggregate: Aggregate<typeof installationCategory, Installation> = {
  category: installationCategory,
  evolve(state, event) {
    switch (event.type) {
      case "InstallationRequested": {
        const { installationId: id, ...asked } = event.data;
        const rest = { branchIds: null, rateLimitPerMinute: DEFAULT_RATE_LIMIT };
        return { id, ...asked, ...rest, status: "requested" };
      }
      case "InstallationApproved": {
        const { installationId: id, approvedBy: _, ...granted } = event.data;
        return { id, ...granted, status: "approved" };
      }
    }
    if (!state) return undefined;
    switch (event.type) {
      case "InstallationNarrowed": {
        const { scopes, branchIds } = event.data;
        return { ...state, scopes, branchIds };
      }
      case "InstallationRateLimitAgreed":
        return { ...state, rateLimitPerMinute: event.data.rateLimitPerMinute };
      case "InstallationRevoked":
        return { ...state, status: "revoked" };
    }
  },
};

type InstallationDecision = Decision<Installation, InstallationEvent>;

/** What may be decided about an installation. Each refuses with {@link DomainError}; what is so already gives no event. */

/** An application asks for a clinic of its own environment, and for no more than its own scopes. */
export function decideRequestInstallation(
  asked: { installationId: string; scopes: Scope[] },
  applicant: Application | undefined,
  clinic: Clinic,
): InstallationDecision {
  return (state) => {
    const application = requireExisting(applicant, "application");
    if (application.revoked) throw new DomainError("application_revoked", "the application is revoked");
    if (application.environment !== clinic.environment) {
      throw new DomainError("environment_mismatch", "application and clinic are of different environments");
    }
    if (clinic.sandboxOf !== null && clinic.sandboxOf !== application.id) {
      throw new DomainError("clinic_is_a_sandbox", "a sandbox is there for its own application alone");
    }
    const scopes = within(asked.scopes, application.scopes);
    if (state && state.status !== "revoked") {
      if (isEqual(state.scopes, scopes)) return [];
      throw new DomainError("installation_exists", "the application has asked this clinic already");
    }
    const { installationId } = asked;
    const { id: applicationId } = application;
    return [
      {
        type: "InstallationRequested",
        data: { installationId, applicationId, clinicId: clinic.id, scopes },
      },
    ];
  };
}

export interface Approval {
  /** Absent: all that were asked for. */
  scopes?: Scope[] | undefined;
  /** Absent or null: every branch of the clinic. */
  branchIds?: string[] | null | undefined;
  /** Requests a minute. */
  rateLimitPerMinute?: number | undefined;
}

/**
 * A clinic administrator approves what was asked for, or less.
 *
 * @param approver the membership of who approves; null where nobody needs to, which is in the sandbox alone
 */
export function decideApproveInstallation(
  approval: Approval,
  approver: Membership | null | undefined,
  clinic: Clinic,
): InstallationDecision {
  return (state) => {
    const {
      id: installationId,
      applicationId,
      clinicId,
      status,
      scopes: asked,
    } = requireExisting(state, "installation");
    requireAdministrator(approver, clinic);
    const branchIds = approval.branchIds?.map((id) => branchOf(clinic, id).id) ?? null;
    requireBranches(branchIds);
    if (status === "approved") throw new DomainError("installation_approved", "it is approved already");
    if (status === "revoked") throw new DomainError("installation_revoked", "it must be asked for again");
    const scopes = within(approval.scopes ?? asked, asked);
    const rateLimitPerMinute = approval.rateLimitPerMinute ?? DEFAULT_RATE_LIMIT;
    const approvedBy = approver?.userId ?? null;
    const data = { installationId, applicationId, clinicId, approvedBy, rateLimitPerMinute };
    return [{ type: "InstallationApproved", data: { ...data, scopes, branchIds } }];
  };
}

/** Takes scopes or branches away; what is absent stays as it is. */
export function decideNarrowInstallation(narrowed: {
  scopes?: Scope[] | undefined;
  branchIds?: string[] | undefined;
}): InstallationDecision {
  return (state) => {
    const { id: installationId, scopes: granted, branchIds: permitted } = approved(state);
    const scopes = within(narrowed.scopes ?? granted, granted);
    const branchIds = narrowed.branchIds ?? permitted;
    requireBranches(branchIds);
    if (permitted && !branchIds?.every((id) => permitted.includes(id))) {
      throw new DomainError("installation_widened", "an approval can be narrowed, not widened");
    }
    if (isEqual({ scopes, branchIds }, { scopes: granted, branchIds: permitted })) return [];
    return [{ type: "InstallationNarrowed", data: { installationId, scopes, branchIds } }];
  };
}

/** @param rateLimitPerMinute requests a minute */
export function decideAgreeRateLimit(rateLimitPerMinute: number): InstallationDecision {
  return (state) => {
    const installation = approved(state);
    if (installation.rateLimitPerMinute === rateLimitPerMinute) return [];
    const data = { installationId: installation.id, rateLimitPerMinute };
    return [{ type: "InstallationRateLimitAgreed", data }];
  };
}

/** Ends an installation for good; again changes nothing. */
export function decideRevokeInstallation(reason: string | null): InstallationDecision {
  return (state) => {
    const { id: installationId, status } = requireExisting(state, "installation");
    return status === "revoked" ? [] : [{ type: "InstallationRevoked", data: { installationId, reason } }];
  };
}

function requireAdministrator(approver: Membership | null | undefined, clinic: Clinic): void {
  if (approver === null && clinic.environment === "sandbox") return;
  const mayApprove =
    approver?.clinicId === clinic.id &&
    approver.status === "active" &&
    approver.rights.permissions.includes("manage_tenant");
  if (!mayApprove) throw new DomainError("not_an_administrator", "a clinic administrator must approve this");
}

function requireBranches(branchIds: string[] | null): void {
  if (branchIds?.length === 0) {
    throw new DomainError("branches_missing", "an access to no branch is none: revoke it instead");
  }
}

function within(asked: readonly Scope[], grant: readonly Scope[]): Scope[] {
  if (asked.length === 0 || !asked.every((scope) => grant.includes(scope))) {
    throw new DomainError("scope_not_granted", "the scopes are none, or more than what was granted");
  }
  return grant.filter((scope) => asked.includes(scope));
}

function approved(state: Installation | undefined): Installation {
  const installation = requireExisting(state, "installation");
  if (installation.status === "approved") return installation;
  throw new DomainError("installation_not_approved", "the installation is not approved");
}
