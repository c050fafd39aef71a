import type { Aggregate, Decision } from "../aggregate.ts";
import type { DataOf } from "../events/category.ts";
import { type StaffEvent, staffCategory } from "../events/people.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";

export type StaffHire = DataOf<StaffEvent, "StaffMemberHired">;

/** State of a staff member of a clinic. */
export interface StaffMember {
  id: string;
  clinicId: string;
  hire: StaffHire;
  active: boolean;
}

export const staffAggregate: Aggregate<typeof staffCategory, StaffMember> = {
  category: staffCategory,
  evolve(state, event) {
    if (event.type === "StaffMemberHired") {
      const { staffId: id, clinicId } = event.data;
      return { id, clinicId, hire: event.data, active: true };
    }
    return state && { ...state, active: event.type === "StaffMemberReactivated" };
  },
  personOf: ({ id }) => ({ type: "staff", id }),
};

type StaffMemberDecision = Decision<StaffMember, StaffEvent>;

/** Identifies a staff member of a clinic. */
type StaffMemberRef = { clinicId: string; staffId: string };

export function decideHireStaff(data: StaffHire): StaffMemberDecision {
  return (state) => registerIdempotently(state?.hire, { type: "StaffMemberHired", data }, "staff_member");
}

export function decideDeactivateStaff({ clinicId, staffId }: StaffMemberRef): StaffMemberDecision {
  return (state) => {
    if (!requireOwnedBy(clinicId, state, "staff_member").active) return [];
    return [{ type: "StaffMemberDeactivated", data: { staffId } }];
  };
}

export function decideReactivateStaff({ clinicId, staffId }: StaffMemberRef): StaffMemberDecision {
  return (state) => {
    if (requireOwnedBy(clinicId, state, "staff_member").active) return [];
    return [{ type: "StaffMemberReactivated", data: { staffId } }];
  };
}
