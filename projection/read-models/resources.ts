import { createUpdateHandler, defineReadModel } from "../engine/read-model.ts";

export const resources = defineReadModel({
  table: "resource",
  columns: {
    resource_id: "uuid",
    clinic_id: "uuid",
    branch_id: "uuid",
    resource_type: "text",
    name: "text",
    capacity: "numeric",
    timezone: "text",
    status: "text",
    metadata: "jsonb",
  },
  nullable: [],
  primaryKey: ["resource_id"],
  indexes: ["clinic_id, branch_id"],
  sandboxCondition: () => "clinic_id = $1::uuid",
  key: (event) => [event.data.resourceId],
  on: {
    ResourceAdded: (_, { data }) => ({
      resource_id: data.resourceId,
      clinic_id: data.clinicId,
      branch_id: data.branchId,
      resource_type: data.resourceType,
      name: data.name,
      capacity: data.capacity,
      timezone: data.timezone,
      status: "active",
      metadata: data.metadata,
    }),
    ResourceRetired: createUpdateHandler(() => ({ status: "retired" })),
  },
});
