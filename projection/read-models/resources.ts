import { change, defineReadModel } from "../engine/read-model.ts";

type ResourceRow = {
  resource_id: string;
  clinic_id: string;
  branch_id: string;
  resource_type: string;
  name: string;
  capacity: number;
  timezone: string;
  status: string;
  metadata: unknown;
};

export const resources = defineReadModel<ResourceRow>()({
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
  inSandbox: () => "clinic_id = $1::uuid",
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
    ResourceRetired: change(() => ({ status: "retired" })),
  },
});
