import { type Aggregate, createClinicRecorder, createRecorder, type Decision, defineAggregate } from "../aggregate.ts";
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

export const membershipAggregate: Aggregate<typeof membershipStreams, Membership> = defineAggregate(
  membershipStreams,
  {
    MembershipGranted(grant) {
      const { membershipId: id, clinicId, userId, acceptedAt } = grant;
      return {
        id,
        clinicId,
        userId,
        status: acceptedAt === null ? "invited" : "active",
        grant,
        rights: toRights(grant),
      };
    },
  },
  {
    MembershipAccepted: () => ({ status: "active" }),
    MembershipPermissionsChanged: (rights) => ({ rights: toRights(rights) }),
    MembershipRevoked: () => ({ status: "revoked" }),
  },
  { personOf: ({ userId }) => ({ type: "portalUser", id: userId }) },
);

type MembershipDecision = Decision<Membership, MembershipEvent>;

function toRights({ role, permissions, branchAccess, branchIds }: MembershipRights): MembershipRights {
  return { role, permissions, branchAccess, branchIds };
}

type MembershipRef = { clinicId: string; membershipId: string };

const recordIf = createRecorder(membershipAggregate, requireNotRevoked);

/** Adds `branchAccess`: `all` without branch ids, otherwise `scoped`. @throws {DomainError} `branch_not_found` */
function completeRights<Rights extends { branchIds: string[] }>(rights: Rights, clinic: Clinic) {
  for (const branchId of rights.branchIds) requireBranch(clinic, branchId);
  return { ...rights, branchAccess: rights.branchIds.length > 0 ? ("scoped" as const) : ("all" as const) };
}

export function grantMembership(grant: Omit<MembershipGrant, "branchAccess">, clinic: Clinic): MembershipDecision {
  return (state) => {
    const data = completeRights(grant, clinic);
    return registerIdempotently(state?.grant, { type: "MembershipGranted", data }, "membership");
  };
}

export const acceptMembership = recordIf("MembershipAccepted", ({ status }) => status !== "active");

export function changePermissions(
  change: MembershipRef & Omit<MembershipRights, "branchAccess">,
  clinic: Clinic,
): MembershipDecision {
  const record = recordIf("MembershipPermissionsChanged", ({ rights }, data) => !isEqual(rights, toRights(data)));
  return (state) => record(completeRights(change, clinic))(state);
}

/**
 * Revokes a membership permanently. The clinic may grant the user a new membership.
 *
 * @param user user of the membership; undefined if nothing is recorded about the user, or if the reason is null
 * @throws {DomainError} `portal_user_erased` if there is a reason, but the user's data was erased
 */
export function revokeMembership(
  revocation: MembershipRef & { reason: string | null },
  user: PortalUser | undefined,
): MembershipDecision {
  return createClinicRecorder(membershipAggregate, "membership")("MembershipRevoked", ({ status }, { reason }) => {
    if (status !== "revoked" && reason !== null && user && isErased(user))
      refuseTextAboutErased("reason", "portal_user");
    return status !== "revoked";
  })(revocation);
}

function requireNotRevoked(state: Membership | undefined, { clinicId }: { clinicId: string }): Membership {
  const membership = requireOwnedBy(clinicId, state, "membership");
  if (membership.status !== "revoked") return membership;
  throw new DomainError("membership_revoked", "the membership is revoked");
}
