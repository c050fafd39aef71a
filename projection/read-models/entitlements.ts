import { defineReadModel, toColumns } from "../engine/read-model.ts";

export const entitlements = defineReadModel({
  table: "entitlement",
  columns: {
    clinic_id: "uuid",
    key: "text",
    enabled: "boolean",
    amount: "numeric",
    effective_until: "timestamptz",
  },
  nullable: ["amount", "effective_until"],
  primaryKey: ["clinic_id", "key"],
  indexes: [],
  key: (event) => [event.data.clinicId, event.data.key],
  on: {
    EntitlementSet: (_, { data }) => ({ ...toColumns(data), amount: data.limit }),
  },
});
