import { change, defineReadModel } from "../engine/read-model.ts";

type HoldRow = {
  hold_id: string;
  clinic_id: string;
  branch_id: string;
  resource_id: string | null;
  starts_at: string;
  ends_at: string;
  expires_at: string;
  status: string;
};

/** Holds. `active` only means that a hold was not released; queries check whether it has expired. */
export const holds = defineReadModel<HoldRow>()({
  table: "hold",
  columns: {
    hold_id: "uuid",
    clinic_id: "uuid",
    branch_id: "uuid",
    resource_id: "uuid",
    starts_at: "timestamptz",
    ends_at: "timestamptz",
    expires_at: "timestamptz",
    status: "text",
  },
  nullable: ["resource_id"],
  primaryKey: ["hold_id"],
  indexes: ["clinic_id, branch_id, starts_at"],
  key: (event) => [event.data.holdId],
  on: {
    HoldPlaced: (_, { data }) => ({
      hold_id: data.holdId,
      clinic_id: data.clinicId,
      branch_id: data.branchId,
      resource_id: data.resourceId,
      starts_at: data.startsAt,
      ends_at: data.endsAt,
      expires_at: data.expiresAt,
      status: "active",
    }),
    HoldReleased: change(() => ({ status: "released" })),
  },
});
