import { type MembershipEvent, membershipCategory } from "../../shared/events/people.ts";
import type { Aggregate } from "../handle.ts";
import type { DataOf } from "./data-of.ts";

export type MembershipGrant = DataOf<MembershipEvent, "MembershipGranted">;
/** What a member may do: the role is a label, the permissions and branches count. */
export type MembershipRights = Omit<DataOf<MembershipEvent, "MembershipPermissionsChanged">, "membershipId">;

/** A portal user's membership of a clinic. */
export interface Membership {
  id: string;
  clinicId: string;
  userId: string;
  status: "invited" | "active" | "revoked";
  grant: MembershipGrant;
  rights: MembershipRights;
}

export const membershipAggregate: Aggregate<typeof membershipCategory, Membership> = {
  category: membershipCategory,
  evolve(state, event) {
    if (event.type === "MembershipGranted") {
      const { membershipId: id, clinicId, userId, acceptedAt } = event.data;
      const status = acceptedAt === null ? "invited" : "active";
      return { id, clinicId, userId, status, grant: event.data, rights: rightsOf(event.data) };
    }
    if (!state) return undefined;
    switch (event.type) {
      case "MembershipAccepted":
        return { ...state, status: "active" };
      case "MembershipPermissionsChanged":
        return { ...state, rights: rightsOf(event.data) };
      case "MembershipRevoked":
        return { ...state, status: "revoked" };
    }
  },
};

function rightsOf({ role, permissions, branchAccess, branchIds }: MembershipRights): MembershipRights {
  return { role, permissions, branchAccess, branchIds };
}
