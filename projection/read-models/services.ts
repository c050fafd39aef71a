import { byName } from "../../shared/postgres/by-name.ts";
import { change, defineReadModel } from "../engine/read-model.ts";

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
  indexes: [`clinic_id, ${byName("name")}, service_id`],
  sandboxCondition: () => "clinic_id = $1::uuid",
  key: (event) => [event.data.serviceId],
  on: {
    ServiceOffered: (_, { data, metadata }) => ({
      service_id: data.serviceId,
      clinic_id: data.clinicId,
      name: data.name,
      category: data.category,
      price: data.price,
      currency: data.currency,
      taxable: data.taxable,
      active: true,
      created_at: metadata.occurredAt,
    }),
    ServiceRepriced: change(({ data }) => ({ price: data.price })),
    ServiceWithdrawn: change(() => ({ active: false })),
    ServiceReinstated: change(() => ({ active: true })),
  },
});
