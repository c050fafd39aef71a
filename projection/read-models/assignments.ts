import { createUpdateHandler, defineReadModel, toColumns } from "../engine/read-model.ts";
import { appointments } from "./appointments.ts";

export const assignments = defineReadModel({
  table: "assignment",
  columns: {
    assignment_id: "uuid",
    clinic_id: "uuid",
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
  sandboxCondition: () => "clinic_id = $1::uuid",
  references: [appointments],
  key: (event) => [event.data.assignmentId],
  on: {
    ResourceAllocated: (_, { data }, findRows) => {
      const appointment = findRows(appointments).after;
      return appointment && { ...toColumns(data), clinic_id: appointment.clinic_id, status: "allocated" };
    },
    ResourceReleased: createUpdateHandler(() => ({ status: "released" })),
  },
});
