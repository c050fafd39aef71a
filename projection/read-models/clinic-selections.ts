import { defineReadModel, toColumns } from "../engine/read-model.ts";

/** The clinic and branch that each user last selected in the portal. */
export const clinicSelections = defineReadModel({
  table: "clinic_selection",
  columns: { user_id: "uuid", clinic_id: "uuid", branch_id: "uuid", selected_at: "timestamptz" },
  nullable: ["branch_id"],
  primaryKey: ["user_id"],
  indexes: [],
  key: (event) => [event.data.userId],
  on: {
    ClinicSelected: (_, { data, metadata }) => ({ ...toColumns(data), selected_at: metadata.occurredAt }),
    PortalUserDataErased: () => undefined,
  },
});
