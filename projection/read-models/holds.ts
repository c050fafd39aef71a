import { createUpdateHandler, defineReadModel, toColumns } from "../engine/read-model.ts";

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
  indexes: [{ columns: "clinic_id, branch_id, expires_at", where: "status = 'active'" }],
  renderedColumns: {
    availability_json: (row) => ({
      id: row.hold_id,
      resource_id: row.resource_id,
      starts_at: row.starts_at,
      ends_at: row.ends_at,
      expires_at: row.expires_at,
      status: row.status,
    }),
  },
  key: (event) => [event.data.holdId],
  on: {
    HoldPlaced: (_, { data }) => ({ ...toColumns(data), status: "active" }),
    HoldReleased: createUpdateHandler(() => ({ status: "released" })),
  },
});
