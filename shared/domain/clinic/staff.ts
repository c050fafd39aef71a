import type { Aggregate, Decision } from "../aggregate.ts";
import type { DataOf } from "../events/category.ts";
import { type StaffEvent, staffStreams } from "../events/people.ts";
import {
  addErasure,
  decideErasure,
  type ErasedData,
  type Erasure,
  NOTHING_ERASED,
  requireNotErased,
} from "../personal-data/erasure.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";

type StaffHire = DataOf<StaffEvent, "StaffMemberHired">;

/** State of a staff member of a clinic. */
interface StaffMember extends ErasedData {
  id: string;
  clinicId: string;
  hire: StaffHire;
  active: boolean;
}

export const staffAggregate: Aggregate<typeof staffStreams, StaffMember> = {
  category: staffStreams,
  evolve(state, event) {
    if (event.type === "StaffMemberHired") {
      const { staffId: id, clinicId } = event.data;
      return { id, clinicId, hire: event.data, active: true, ...NOTHING_ERASED };
    }
    if (!state) return undefined;
    switch (event.type) {
      case "StaffMemberDeactivated":
        return { ...state, active: false };
      case "StaffMemberReactivated":
        return { ...state, active: true };
      case "StaffDataErased":
        return { ...state, ...addErasure(state, event.data) };
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
    const erasedData = requireOwnedBy(clinicId, state, "staff_member");
    const erasure = decideErasure(erasedData, requestedErasure);
    return erasure ? [{ type: "StaffDataErased", data: { staffId, ...erasure } }] : [];
  };
}
