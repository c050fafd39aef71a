import type { Aggregate, Decision } from "../aggregate.ts";
import type { DataOf } from "../events/category.ts";
import { type PortalUserEvent, portalUserStreams } from "../events/people.ts";
import {
  addErasure,
  decideErasure,
  type ErasedData,
  type Erasure,
  NOTHING_ERASED,
  requireNotErased,
} from "../personal-data/erasure.ts";
import { type Clinic, requireBranch } from "./clinic.ts";

type ClinicSelection = DataOf<PortalUserEvent, "ClinicSelected">;

/** State of a portal user. */
export interface PortalUser extends ErasedData {
  id: string;
  /** Selected clinic; null if the user has not selected one. */
  clinicId: string | null;
  /** Selected branch; null if no branch is selected. */
  branchId: string | null;
}

export const portalUserAggregate: Aggregate<typeof portalUserStreams, PortalUser> = {
  category: portalUserStreams,
  evolve(state, event) {
    const { erasedCategories, finalCategories } = state ?? NOTHING_ERASED;
    switch (event.type) {
      case "ClinicSelected": {
        const { userId: id, clinicId, branchId } = event.data;
        return { id, clinicId, branchId, erasedCategories, finalCategories };
      }
      case "PortalUserDataErased": {
        const { userId: id, ...erasure } = event.data;
        return { id, clinicId: null, branchId: null, ...addErasure({ erasedCategories, finalCategories }, erasure) };
      }
      case "PortalUserSummarized": {
        const { userId: id, ...summary } = event.data;
        return { id, ...summary };
      }
    }
  },
  summarize: ({ id: userId, ...state }) => ({ type: "PortalUserSummarized", data: { userId, ...state } }),
};

type PortalUserDecision = Decision<PortalUser, PortalUserEvent>;

/** Selects a clinic and a branch for a portal user. A selection grants no access, because every read checks access. */
export function decideSelectClinic(data: ClinicSelection, clinic: Clinic): PortalUserDecision {
  return (state) => {
    if (state) requireNotErased(state, "portal_user");
    if (data.branchId !== null) requireBranch(clinic, data.branchId);
    if (state?.clinicId === data.clinicId && state.branchId === data.branchId) return [];
    return [{ type: "ClinicSelected", data }];
  };
}

/** Erases the data of a portal user, who may be a member of several clinics. The selection of a clinic is deleted. */
export function decideErasePortalUser({
  userId,
  ...requestedErasure
}: { userId: string } & Erasure): PortalUserDecision {
  return (state) => {
    const erasure = decideErasure(state ?? NOTHING_ERASED, requestedErasure);
    return erasure ? [{ type: "PortalUserDataErased", data: { userId, ...erasure } }] : [];
  };
}
