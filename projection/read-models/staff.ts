import { buildNameSortSql } from "../../shared/postgres/read-model-schema.ts";
import {
  createUpdateHandler,
  defineReadModel,
  eraseColumns,
  getNeutralColumns,
  toColumns,
} from "../engine/read-model.ts";

const personalColumns = { contact: getNeutralColumns("StaffMemberHired", ["fullName", "email"]) };

export const staff = defineReadModel({
  table: "staff",
  columns: {
    staff_id: "uuid",
    clinic_id: "uuid",
    user_id: "uuid",
    full_name: "text",
    email: "text",
    role: "text",
    active: "boolean",
    created_at: "timestamptz",
  },
  nullable: ["user_id", "full_name", "email"],
  primaryKey: ["staff_id"],
  auditColumns: ["staff_id", "clinic_id", "user_id", "full_name", "role", "active"],
  indexes: [`clinic_id, ${buildNameSortSql("full_name")}, staff_id`],
  personalColumns,
  key: (event) => [event.data.staffId],
  on: {
    StaffMemberHired: (_, { data, metadata }) => ({
      ...toColumns(data),
      active: true,
      created_at: metadata.occurredAt,
    }),
    StaffMemberDeactivated: createUpdateHandler(() => ({ active: false })),
    StaffMemberReactivated: createUpdateHandler(() => ({ active: true })),
    StaffDataErased: createUpdateHandler(({ data }, row) => eraseColumns(row, data.categories, personalColumns)),
  },
});
