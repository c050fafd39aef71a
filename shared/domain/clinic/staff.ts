import { type Aggregate, createClinicRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import type { DataOf } from "../events/category.ts";
import { type StaffEvent, staffStreams } from "../events/people.ts";
import {
  addErasure,
  type ErasedData,
  isErasureNeeded,
  NOTHING_ERASED,
  requireNotErased,
} from "../personal-data/erasure.ts";
import { registerIdempotently } from "../preconditions.ts";

type StaffHire = DataOf<StaffEvent, "StaffMemberHired">;

interface StaffMember extends ErasedData {
  id: string;
  clinicId: string;
  hire: StaffHire;
  active: boolean;
}

export const staffAggregate: Aggregate<typeof staffStreams, StaffMember> = defineAggregate(
  staffStreams,
  {
    StaffMemberHired: (hire) => ({
      id: hire.staffId,
      clinicId: hire.clinicId,
      hire,
      active: true,
      ...NOTHING_ERASED,
    }),
  },
  {
    StaffMemberDeactivated: () => ({ active: false }),
    StaffMemberReactivated: () => ({ active: true }),
    StaffDataErased: (erasure, staffMember) => addErasure(staffMember, erasure),
  },
  { personOf: ({ id }) => ({ type: "staff", id }) },
);

export function hireStaff(data: StaffHire): Decision<StaffMember, StaffEvent> {
  return (state) => {
    if (state) requireNotErased(state, "staff_member");
    return registerIdempotently(state?.hire, { type: "StaffMemberHired", data }, "staff_member");
  };
}

const recordIf = createClinicRecorder(staffAggregate, "staff_member");

export const deactivateStaff = recordIf("StaffMemberDeactivated", ({ active }) => active);

export const reactivateStaff = recordIf("StaffMemberReactivated", (staffMember) => {
  if (!staffMember.active) requireNotErased(staffMember, "staff_member");
  return !staffMember.active;
});

export const eraseStaff = recordIf("StaffDataErased", isErasureNeeded);
