import type { Aggregate, Decision } from "../aggregate.ts";
import type { DataOf } from "../events/category.ts";
import { type PortalUserEvent, portalUserCategory } from "../events/people.ts";
import { type Clinic, requireBranch } from "./clinic.ts";

export type ClinicSelection = DataOf<PortalUserEvent, "ClinicSelected">;

/** State of a portal user: the selected clinic, and the selected branch or null. */
export interface PortalUser {
  id: string;
  clinicId: string;
  branchId: string | null;
}

export const portalUserAggregate: Aggregate<typeof portalUserCategory, PortalUser> = {
  category: portalUserCategory,
  evolve(_, { data: { userId, clinicId, branchId } }) {
    return { id: userId, clinicId, branchId };
  },
};

/** Selects a clinic and a branch for a portal user. A selection grants no access, because every read checks access. */
export function decideSelectClinic(data: ClinicSelection, clinic: Clinic): Decision<PortalUser, PortalUserEvent> {
  return (state) => {
    if (data.branchId !== null) requireBranch(clinic, data.branchId);
    if (state?.clinicId === data.clinicId && state.branchId === data.branchId) return [];
    return [{ type: "ClinicSelected", data }];
  };
}
