import { buildNameSortSql } from "../../shared/postgres/by-name.ts";
import { createUpdateHandler, defineReadModel, toColumns } from "../engine/read-model.ts";

export const customers = defineReadModel({
  table: "customer",
  columns: {
    customer_id: "uuid",
    clinic_id: "uuid",
    full_name: "text",
    phone: "text",
    email: "text",
    city: "text",
    created_at: "timestamptz",
    updated_at: "timestamptz",
  },
  nullable: ["phone", "email", "city"],
  primaryKey: ["customer_id"],
  auditColumns: ["customer_id", "clinic_id", "full_name"],
  indexes: [`clinic_id, ${buildNameSortSql("full_name")}, customer_id`],
  renderedColumns: {
    portal_json: (row) => ({
      id: row.customer_id,
      fullName: row.full_name,
      phone: row.phone,
      email: row.email,
      city: row.city,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
    }),
    appointment_json: (row) => ({ id: row.customer_id, fullName: row.full_name }),
  },
  sandboxCondition: () => "clinic_id = $1::uuid",
  key: (event) => [event.data.customerId],
  on: {
    CustomerRegistered: (_, { data, metadata }) => ({
      ...toColumns(data),
      created_at: metadata.occurredAt,
      updated_at: metadata.occurredAt,
    }),
    CustomerDetailsChanged: createUpdateHandler(({ data, metadata }) => ({
      ...toColumns(data),
      updated_at: metadata.occurredAt,
    })),
  },
});
