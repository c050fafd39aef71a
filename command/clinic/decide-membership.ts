import { isDeepStrictEqual } from "node:util";
import type { MembershipEvent } from "../../shared/events/people.ts";
import { DomainError } from "../handle.ts";
import type { Clinic } from "./clinic.ts";
import { branchOf } from "./in-clinic.ts";
import type { Membership, MembershipGrant, MembershipRights } from "./membership.ts";
import { owned } from "./owned.ts";
import { registerOnce } from "./register-once.ts";

type Decision = (state: Membership | undefined) => MembershipEvent[];
type OfClinic = { clinicId: string; membershipId: string };

export function decideGrantMembership(data: MembershipGrant, clinic: Clinic): Decision {
  return (state) => {
    requireScope(data, clinic);
    return registerOnce(state?.grant, { type: "MembershipGranted", data }, "membership");
  };
}

export function decideAcceptMembership({ clinicId, membershipId }: OfClinic): Decision {
  return (state) => {
    if (live(state, clinicId).status === "active") return [];
    return [{ type: "MembershipAccepted", data: { membershipId } }];
  };
}

export function decideChangePermissions(
  change: OfClinic & { rights: MembershipRights },
  clinic: Clinic,
): Decision {
  return (state) => {
    const { clinicId, membershipId, rights } = change;
    requireScope(rights, clinic);
    if (isDeepStrictEqual(live(state, clinicId).rights, rights)) return [];
    return [{ type: "MembershipPermissionsChanged", data: { membershipId, ...rights } }];
  };
}

/** A membership that is revoked stays so; the user may be granted a new one. */
export function decideRevokeMembership(revocation: OfClinic & { reason: string | null }): Decision {
  return (state) => {
    const { clinicId, membershipId, reason } = revocation;
    if (owned(state, clinicId, "membership").status === "revoked") return [];
    return [{ type: "MembershipRevoked", data: { membershipId, reason } }];
  };
}

function live(state: Membership | undefined, clinicId: string): Membership {
  const membership = owned(state, clinicId, "membership");
  if (membership.status !== "revoked") return membership;
  throw new DomainError("membership_revoked", "the membership is revoked");
}

function requireScope({ branchAccess, branchIds }: MembershipRights, clinic: Clinic): void {
  if (branchAccess === "all" && branchIds.length > 0)
    throw new DomainError("branches_of_unscoped", "a member of all branches has no list of branches");
  if (branchAccess === "scoped" && branchIds.length === 0)
    throw new DomainError("branches_missing", "a member of some branches needs their list");
  for (const branchId of branchIds) branchOf(clinic, branchId);
}
