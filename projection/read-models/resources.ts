import { createUpdateHandler, defineReadModel, toColumns } from "../engine/read-model.ts";

/** Rooms, devices and persons that appointments occupy. */
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
    metadata: "json",
    /**
     * Duration of the resource's longest allocation so far. To find allocations that reach into a time window, a query
     * starts its search this much earlier than the window.
     */
    longest_allocation_seconds: "numeric",
  },
  nullable: [],
  primaryKey: ["resource_id"],
  auditColumns: ["resource_id", "clinic_id", "name"],
  indexes: ["clinic_id, branch_id"],
  renderedColumns: {
    availability_json: (row) => ({
      id: row.resource_id,
      resource_type: row.resource_type,
      name: row.name,
      capacity: row.capacity,
      timezone: row.timezone,
      status: row.status,
      metadata: row.metadata,
    }),
  },
  sandboxCondition: () => "clinic_id = $1::uuid",
  key: (event) => [event.data.resourceId],
  on: {
    ResourceAdded: (_, { data }) => ({
      ...toColumns(data),
      status: "active",
      longest_allocation_seconds: 0,
    }),
    ResourceAllocated: (row, { data }) => {
      const durationSeconds = countSeconds(data.allocationStart, data.allocationEnd);
      return row && durationSeconds > row.longest_allocation_seconds
        ? { ...row, longest_allocation_seconds: durationSeconds }
        : row;
    },
    ResourceRetired: createUpdateHandler(() => ({ status: "retired" })),
    // The rules have rows of their own. The engine compares their clinic with that of the resource.
    AvailabilityRuleSet: (row) => row,
    AvailabilityRuleRemoved: (row) => row,
  },
});

/** Rounds up. */
function countSeconds(startTime: string, endTime: string): number {
  return Math.ceil((Date.parse(endTime) - Date.parse(startTime)) / 1_000);
}
