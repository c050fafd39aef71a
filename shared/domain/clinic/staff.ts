import type { Aggregate, Decision } from "../aggregate.ts";
import type { DataOf } from "../events/category.ts";
import { type StaffEvent, staffCategory } from "../events/people.ts";
import { addErasedCategories, decideErasure, type Erasure, requireNotErased } from "../personal-data/erasure.ts";
import type { PersonalDataCategory } from "../personal-data/person.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";

export type StaffHire = DataOf<StaffEvent, "StaffMemberHired">;

/** State of a staff member of a clinic. */
export interface StaffMember {
  id: string;
  clinicId: string;
  hire: StaffHire;
  active: boolean;
  /** Categories of the staff member's data that were erased. */
  erasedCategories: PersonalDataCategory[];
}

export const staffAggregate: Aggregate<typeof staffCategory, StaffMember> = {
  category: staffCategory,
  evolve(state, event) {
    if (event.type === "StaffMemberHired") {
      const { staffId: id, clinicId } = event.data;
      return { id, clinicId, hire: event.data, active: true, erasedCategories: [] };
    }
    if (!state) return undefined;
    switch (event.type) {
      case "StaffMemberDeactivated":
        return { ...state, active: false };
      case "StaffMemberReactivated":
        return { ...state, active: true };
      case "StaffDataErased":
        return { ...state, erasedCategories: addErasedCategories(state.erasedCategories, event.data) };
    }
  },
  personOf: ({ id }) => ({ type: "staff", id }),
};

type StaffMemberDecision = Decision<StaffMember, StaffEvent>;

/** Identifies a staff member of a clinic. */
type StaffMemberRef = { clinicId: string; staffId: string };

export function decideHireStaff(data: StaffHire): StaffMemberDecision {
  return (state) => {
    if (state) requireNotErased(state, "staff_member");
    return registerIdempotently(state?.hire, { type: "StaffMemberHired", data }, "staff_member");
  };
}

export function decideDeactivateStaff({ clinicId, staffId }: StaffMemberRef): StaffMemberDecision {
  return (state) => {
    if (!requireOwnedBy(clinicId, state, "staff_member").active) return [];
    return [{ type: "StaffMemberDeactivated", data: { staffId } }];
  };
}

export function decideReactivateStaff({ clinicId, staffId }: StaffMemberRef): StaffMemberDecision {
  return (state) => {
    const staffMember = requireOwnedBy(clinicId, state, "staff_member");
    if (staffMember.active) return [];
    requireNotErased(staffMember, "staff_member");
    return [{ type: "StaffMemberReactivated", data: { staffId } }];
  };
}

export function decideEraseStaff(command: StaffMemberRef & Erasure): StaffMemberDecision {
  return (state) => {
    const { clinicId, staffId, ...requestedErasure } = command;
    const { erasedCategories } = requireOwnedBy(clinicId, state, "staff_member");
    const erasure = decideErasure(erasedCategories, requestedErasure);
    return erasure ? [{ type: "StaffDataErased", data: { staffId, ...erasure } }] : [];
  };
}
