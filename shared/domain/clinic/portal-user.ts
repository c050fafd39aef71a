import { type Aggregate, createRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import type { DataOf } from "../events/category.ts";
import { type PortalUserEvent, portalUserStreams } from "../events/people.ts";
import {
  addErasure,
  type ErasedData,
  isErasureNeeded,
  NOTHING_ERASED,
  requireNotErased,
} from "../personal-data/erasure.ts";
import { type Clinic, requireBranch } from "./clinic.ts";

type ClinicSelection = DataOf<PortalUserEvent, "ClinicSelected">;

export interface PortalUser extends ErasedData {
  id: string;
  /** Selected clinic; null if the user has not selected one. */
  clinicId: string | null;
  /** Selected branch; null if no branch is selected. */
  branchId: string | null;
}

export const portalUserAggregate: Aggregate<typeof portalUserStreams, PortalUser> = defineAggregate(
  portalUserStreams,
  {
    ClinicSelected: ({ userId: id, ...selection }, state) => ({ ...NOTHING_ERASED, ...state, id, ...selection }),
    PortalUserDataErased: ({ userId: id, ...erasure }, state) => ({
      ...{ id, clinicId: null, branchId: null },
      ...addErasure(state ?? NOTHING_ERASED, erasure),
    }),
    PortalUserSummarized: ({ userId: id, ...summary }) => ({ id, ...summary }),
  },
  {},
  { summarize: ({ id: userId, ...state }) => ({ type: "PortalUserSummarized", data: { userId, ...state } }) },
);

/**
 * Selects a clinic and a branch for a portal user. A selection grants no access: every read checks access separately.
 */
export function selectClinic(data: ClinicSelection, clinic: Clinic): Decision<PortalUser, PortalUserEvent> {
  return (state) => {
    if (state) requireNotErased(state, "portal_user");
    if (data.branchId !== null) requireBranch(clinic, data.branchId);
    if (state?.clinicId === data.clinicId && state.branchId === data.branchId) return [];
    return [{ type: "ClinicSelected", data }];
  };
}

/** Erases the data of a portal user, who may be a member of several clinics. The selection of a clinic is deleted. */
export const erasePortalUser = createRecorder(portalUserAggregate, (state) => state ?? NOTHING_ERASED)(
  "PortalUserDataErased",
  isErasureNeeded,
);
