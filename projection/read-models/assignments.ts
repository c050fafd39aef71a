import { createUpdateHandler, defineReadModel, toColumns } from "../engine/read-model.ts";

/** The clinic follows from the appointment, so it is not stored. */
export const assignments = defineReadModel({
  table: "assignment",
  columns: {
    assignment_id: "uuid",
    appointment_id: "uuid",
    resource_id: "uuid",
    allocation_start: "timestamptz",
    allocation_end: "timestamptz",
    status: "text",
  },
  nullable: [],
  primaryKey: ["assignment_id"],
  indexes: ["appointment_id", "resource_id, allocation_start"],
  renderedColumns: {
    availability_json: (row) => ({
      id: row.assignment_id,
      appointment_id: row.appointment_id,
      resource_id: row.resource_id,
      allocation_start: row.allocation_start,
      allocation_end: row.allocation_end,
      status: row.status,
    }),
  },
  sandboxCondition: (schema) =>
    `appointment_id IN (SELECT appointment_id FROM ${schema}.appointment WHERE clinic_id = $1::uuid)`,
  key: (event) => [event.data.assignmentId],
  on: {
    ResourceAllocated: (_, { data }) => ({ ...toColumns(data), status: "allocated" }),
    ResourceReleased: createUpdateHandler(() => ({ status: "released" })),
  },
});
