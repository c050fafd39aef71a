import { buildNameSortSql } from "../../shared/postgres/read-model-schema.ts";
import { defineReadModel, toColumns } from "../engine/read-model.ts";

export const branches = defineReadModel({
  table: "branch",
  columns: {
    branch_id: "uuid",
    clinic_id: "uuid",
    name: "text",
    city: "text",
    is_main: "boolean",
    created_at: "timestamptz",
  },
  nullable: ["city"],
  primaryKey: ["branch_id"],
  auditColumns: ["branch_id", "clinic_id", "name"],
  indexes: [`clinic_id, ${buildNameSortSql("name")}, branch_id`],
  key: (event) => [event.data.branchId],
  on: {
    BranchOpened: (_, { data, metadata }) => ({ ...toColumns(data), created_at: metadata.occurredAt }),
  },
});
