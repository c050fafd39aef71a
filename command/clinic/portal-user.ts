import { type PortalUserEvent, portalUserCategory } from "../../shared/events/people.ts";
import type { Aggregate } from "../handle.ts";
import type { Clinic } from "./clinic.ts";
import type { DataOf } from "./data-of.ts";
import { branchOf } from "./in-clinic.ts";

export type ClinicSelection = DataOf<PortalUserEvent, "ClinicSelected">;

/** What a portal user chose to look at last. */
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

/** A choice grants nothing: whether the user may see what was chosen is asked when it is read. */
export function decideSelectClinic(data: ClinicSelection, clinic: Clinic) {
  return (state: PortalUser | undefined): PortalUserEvent[] => {
    if (data.branchId !== null) branchOf(clinic, data.branchId);
    if (state?.clinicId === data.clinicId && state.branchId === data.branchId) return [];
    return [{ type: "ClinicSelected", data }];
  };
}
