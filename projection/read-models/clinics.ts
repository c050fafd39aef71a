import { type Clinic, setRetentionMonths } from "../../shared/domain/clinic/clinic.ts";
import { clinicStreams } from "../../shared/domain/events/clinic.ts";
import { createUpdateHandler, defineJsonColumn, defineReadModel, toColumns } from "../engine/read-model.ts";

export const clinics = defineReadModel({
  table: "clinic",
  columns: {
    clinic_id: "uuid",
    environment: "text",
    slug: "text",
    name: "text",
    timezone: "text",
    currency: "text",
    locale: "text",
    city: "text",
    status: "text",
    is_demo: "boolean",
    demo_expires_at: "timestamptz",
    /** Object with `plan`, `status` and `currentPeriodEnd`. */
    subscription: "jsonb",
    /** Months for which the clinic keeps customers' data after the last visit, by category. */
    retention_months: defineJsonColumn<Clinic["retentionMonths"]>(),
    created_at: "timestamptz",
  },
  nullable: ["city", "demo_expires_at", "subscription"],
  primaryKey: ["clinic_id"],
  revokingStreams: clinicStreams,
  auditColumns: ["clinic_id", "name", "timezone", "environment", "status"],
  indexes: [],
  key: (event) => [event.data.clinicId],
  on: {
    ClinicRegistered: (_, { data, metadata }) => ({
      ...toColumns(data),
      status: "active",
      subscription: null,
      retention_months: {},
      created_at: metadata.occurredAt,
    }),
    ClinicSuspended: createUpdateHandler(() => ({ status: "suspended" })),
    ClinicReinstated: createUpdateHandler(() => ({ status: "active" })),
    ClinicClosed: createUpdateHandler(() => ({ status: "closed" })),
    SubscriptionChanged: createUpdateHandler(({ data: { plan, status, currentPeriodEnd } }) => ({
      subscription: { plan, status, currentPeriodEnd },
    })),
    RetentionRuleSet: createUpdateHandler(({ data }, row) => ({
      retention_months: setRetentionMonths(row.retention_months, data),
    })),
  },
});
