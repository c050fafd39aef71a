import { buildNameSortSql } from "../../shared/postgres/read-model-schema.ts";
import { createUpdateHandler, defineReadModel, toColumns } from "../engine/read-model.ts";

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
