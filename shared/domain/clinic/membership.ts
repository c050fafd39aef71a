import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type MembershipEvent, membershipStreams } from "../events/people.ts";
import { isErased, refuseTextAboutErased } from "../personal-data/erasure.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";
import { type Clinic, requireBranch } from "./clinic.ts";
import type { PortalUser } from "./portal-user.ts";

export type MembershipGrant = DataOf<MembershipEvent, "MembershipGranted">;
/** Rights of a member. Permissions and branches grant access. The role is only a label. */
export type MembershipRights = Omit<DataOf<MembershipEvent, "MembershipPermissionsChanged">, "membershipId">;

/** State of a portal user's membership of a clinic. */
export interface Membership {
  id: string;
  clinicId: string;
  userId: string;
  status: "invited" | "active" | "revoked";
  grant: MembershipGrant;
  rights: MembershipRights;
}

export const membershipAggregate: Aggregate<typeof membershipStreams, Membership> = {
  category: membershipStreams,
  evolve(state, event) {
    if (event.type === "MembershipGranted") {
      const { membershipId: id, clinicId, userId, acceptedAt } = event.data;
      const status = acceptedAt === null ? "invited" : "active";
      return { id, clinicId, userId, status, grant: event.data, rights: toRights(event.data) };
    }
    if (!state) return undefined;
    switch (event.type) {
      case "MembershipAccepted":
        return { ...state, status: "active" };
      case "MembershipPermissionsChanged":
        return { ...state, rights: toRights(event.data) };
      case "MembershipRevoked":
        return { ...state, status: "revoked" };
    }
  },
  personOf: ({ userId }) => ({ type: "portalUser", id: userId }),
};

type MembershipDecision = Decision<Membership, MembershipEvent>;

function toRights({ role, permissions, branchAccess, branchIds }: MembershipRights): MembershipRights {
  return { role, permissions, branchAccess, branchIds };
}

/** Identifies a membership of a clinic. */
type MembershipRef = { clinicId: string; membershipId: string };

export function decideGrantMembership(data: MembershipGrant, clinic: Clinic): MembershipDecision {
  return (state) => {
    requireValidBranches(data, clinic);
    return registerIdempotently(state?.grant, { type: "MembershipGranted", data }, "membership");
  };
}

export function decideAcceptMembership({ clinicId, membershipId }: MembershipRef): MembershipDecision {
  return (state) => {
    if (requireNotRevoked(state, clinicId).status === "active") return [];
    return [{ type: "MembershipAccepted", data: { membershipId } }];
  };
}

export function decideChangePermissions(
  change: MembershipRef & { rights: MembershipRights },
  clinic: Clinic,
): MembershipDecision {
  return (state) => {
    const { clinicId, membershipId, rights } = change;
    requireValidBranches(rights, clinic);
    if (isEqual(requireNotRevoked(state, clinicId).rights, rights)) return [];
    return [{ type: "MembershipPermissionsChanged", data: { membershipId, ...rights } }];
  };
}

/**
 * Revokes a membership permanently. The clinic may grant the user a new membership.
 *
 * @param user user of the membership; undefined if nothing is recorded about the user, or if the reason is null
 * @throws {DomainError} `portal_user_erased` if there is a reason, but the user's data was erased
 */
export function decideRevokeMembership(
  revocation: MembershipRef & { reason: string | null },
  user: PortalUser | undefined,
): MembershipDecision {
  return (state) => {
    const { clinicId, membershipId, reason } = revocation;
    if (requireOwnedBy(clinicId, state, "membership").status === "revoked") return [];
    if (reason !== null && user && isErased(user)) refuseTextAboutErased("reason", "portal_user");
    return [{ type: "MembershipRevoked", data: { membershipId, reason } }];
  };
}

function requireNotRevoked(state: Membership | undefined, clinicId: string): Membership {
  const membership = requireOwnedBy(clinicId, state, "membership");
  if (membership.status !== "revoked") return membership;
  throw new DomainError("membership_revoked", "the membership is revoked");
}

function requireValidBranches({ branchAccess, branchIds }: MembershipRights, clinic: Clinic): void {
  if (branchAccess === "all" && branchIds.length > 0)
    throw new DomainError(
      "branches_of_unscoped",
      "a member with access to all branches must not have a list of branches",
    );
  if (branchAccess === "scoped" && branchIds.length === 0)
    throw new DomainError("branches_missing", "a member with access to some branches needs a list of branches");
  for (const branchId of branchIds) requireBranch(clinic, branchId);
}
