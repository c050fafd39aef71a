import { buildNameSortSql } from "../../shared/postgres/read-model-schema.ts";
import { createUpdateHandler, defineReadModel, pickColumns, toColumns } from "../engine/read-model.ts";

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
  commandColumns: [
    ...(["resource_id", "clinic_id", "branch_id", "resource_type", "name", "capacity"] as const),
    ...(["timezone", "status", "longest_allocation_seconds"] as const),
  ],
  indexes: ["clinic_id, branch_id"],
  renderedColumns: {
    availability_json: (row) => ({
      id: row.resource_id,
      ...pickColumns(row, "resource_type", "name", "capacity", "timezone", "status", "metadata"),
    }),
  },
  sandboxCondition: () => "clinic_id = $1::uuid",
  key: (event) => {
    const resourceId = event.type === "AppointmentRequested" ? event.data.place?.resourceId : event.data.resourceId;
    return resourceId === undefined ? undefined : [resourceId];
  },
  on: {
    ResourceAdded: (_, { data }) => ({
      ...toColumns(data),
      status: "active",
      longest_allocation_seconds: 0,
    }),
    AppointmentRequested: (row, { data }) => row && lengthen(row, data.durationMinutes * 60),
    ResourceAllocated: (row, { data }) => row && lengthen(row, countSeconds(data.allocationStart, data.allocationEnd)),
    ResourceRetired: createUpdateHandler(() => ({ status: "retired" })),
    // The rules have rows of their own. The engine compares their clinic with that of the resource.
    AvailabilityRuleSet: (row) => row,
    AvailabilityRuleRemoved: (row) => row,
  },
});

function lengthen<R extends { longest_allocation_seconds: number }>(row: R, durationSeconds: number): R {
  return durationSeconds > row.longest_allocation_seconds
    ? { ...row, longest_allocation_seconds: durationSeconds }
    : row;
}

/** Returns the duration in seconds, rounded up. */
function countSeconds(startTime: string, endTime: string): number {
  return Math.ceil((Date.parse(endTime) - Date.parse(startTime)) / 1_000);
}

/** Holds. The status `active` means that a hold was not released. Queries check whether the hold has expired. */
export const holds = defineReadModel({
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
  commandColumns: [
    ...(["hold_id", "clinic_id", "branch_id", "resource_id", "starts_at", "ends_at", "expires_at", "status"] as const),
  ],
  indexes: [{ columns: "clinic_id, branch_id, expires_at", where: "status = 'active'" }],
  renderedColumns: {
    availability_json: (row) => ({
      id: row.hold_id,
      ...pickColumns(row, "resource_id", "starts_at", "ends_at", "expires_at", "status"),
    }),
  },
  key: (event) => [event.data.holdId],
  on: {
    HoldPlaced: (_, { data }) => ({ ...toColumns(data), status: "active" }),
    HoldReleased: createUpdateHandler(() => ({ status: "released" })),
  },
});

export const availabilityRules = defineReadModel({
  table: "availability_rule",
  columns: {
    rule_id: "uuid",
    clinic_id: "uuid",
    resource_id: "uuid",
    weekday: "numeric",
    starts_at: "time",
    ends_at: "time",
    valid_from: "date",
    valid_until: "date",
    rule_type: "text",
    recurrence: "json",
  },
  nullable: ["valid_from", "valid_until", "recurrence"],
  primaryKey: ["rule_id"],
  commandColumns: [
    ...(["resource_id", "clinic_id", "weekday", "starts_at", "ends_at"] as const),
    ...(["valid_from", "valid_until", "rule_type", "recurrence"] as const),
  ],
  indexes: ["resource_id, weekday, starts_at"],
  renderedColumns: {
    availability_json: (row) => ({
      id: row.rule_id,
      ...pickColumns(row, "resource_id", "weekday", "starts_at", "ends_at"),
      ...pickColumns(row, "valid_from", "valid_until", "rule_type", "recurrence"),
    }),
  },
  sandboxCondition: () => "clinic_id = $1::uuid",
  references: [resources],
  key: (event) => [event.data.ruleId],
  on: {
    AvailabilityRuleSet: (_, { data }, findRows) => {
      const resource = findRows(resources).after;
      return resource && { ...toColumns(data), clinic_id: resource.clinic_id };
    },
    AvailabilityRuleRemoved: () => undefined,
  },
});

export const services = defineReadModel({
  table: "service",
  columns: {
    service_id: "uuid",
    clinic_id: "uuid",
    name: "text",
    category: "text",
    price: "numeric",
    currency: "text",
    taxable: "boolean",
    active: "boolean",
    created_at: "timestamptz",
  },
  nullable: ["category"],
  primaryKey: ["service_id"],
  auditColumns: ["service_id", "clinic_id", "name"],
  indexes: [`clinic_id, ${buildNameSortSql("name")}, service_id`],
  sandboxCondition: () => "clinic_id = $1::uuid",
  key: (event) => [event.data.serviceId],
  on: {
    ServiceOffered: (_, { data, metadata }) => ({
      ...toColumns(data),
      active: true,
      created_at: metadata.occurredAt,
    }),
    ServiceRepriced: createUpdateHandler(({ data }) => ({ price: data.price })),
    ServiceWithdrawn: createUpdateHandler(() => ({ active: false })),
    ServiceReinstated: createUpdateHandler(() => ({ active: true })),
  },
});
