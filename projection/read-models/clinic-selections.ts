import { defineReadModel } from "../engine/read-model.ts";

/** The clinic and branch that each user last selected in the portal. */
export const clinicSelections = defineReadModel({
  table: "clinic_selection",
  columns: { user_id: "uuid", selected_clinic_id: "uuid", branch_id: "uuid", selected_at: "timestamptz" },
  nullable: ["branch_id"],
  primaryKey: ["user_id"],
  indexes: [],
  key: (event) => [event.data.userId],
  on: {
    ClinicSelected: (_, { data: { userId, clinicId, branchId }, metadata }) => ({
      user_id: userId,
      selected_clinic_id: clinicId,
      branch_id: branchId,
      selected_at: metadata.occurredAt,
    }),
    PortalUserDataErased: () => undefined,
  },
});
