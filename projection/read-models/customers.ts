import { buildNameSortSql } from "../../shared/postgres/read-model-schema.ts";
import {
  createUpdateHandler,
  defineReadModel,
  eraseColumns,
  getNeutralColumns,
  toColumns,
} from "../engine/read-model.ts";

const personalColumns = { contact: getNeutralColumns("CustomerRegistered", ["fullName", "phone", "email", "city"]) };

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
  // The second index finds the customers whose retention period has ended, in pages.
  indexes: [`clinic_id, ${buildNameSortSql("full_name")}, customer_id`, "clinic_id, customer_id"],
  personalColumns,
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
    CustomerDataErased: createUpdateHandler(({ data, metadata }, row) => ({
      ...eraseColumns(row, data.categories, personalColumns),
      updated_at: metadata.occurredAt,
    })),
  },
});
