import { type Clinic, setRetentionMonths } from "../../shared/domain/clinic/clinic.ts";
import { clinicStreams } from "../../shared/domain/events/clinic.ts";
import { DEFAULT_GRID_MINUTES } from "../../shared/domain/scheduling/free-times.ts";
import { buildNameSortSql } from "../../shared/postgres/read-model-schema.ts";
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
    /** Minutes between two starting times that partners can book. */
    slot_grid_minutes: "numeric",
    /** Months for which the clinic keeps customers' data after the last visit, by category. */
    retention_months: defineJsonColumn<Clinic["retentionMonths"]>(),
    created_at: "timestamptz",
  },
  nullable: ["city", "demo_expires_at", "subscription"],
  primaryKey: ["clinic_id"],
  revokingStreams: clinicStreams,
  auditColumns: ["clinic_id", "name", "slug", "timezone", "environment", "status"],
  indexes: [],
  key: (event) => [event.data.clinicId],
  on: {
    ClinicRegistered: (_, { data, metadata }) => ({
      ...toColumns(data),
      status: "active",
      subscription: null,
      slot_grid_minutes: DEFAULT_GRID_MINUTES,
      retention_months: {},
      created_at: metadata.occurredAt,
    }),
    ClinicSuspended: createUpdateHandler(() => ({ status: "suspended" })),
    ClinicReinstated: createUpdateHandler(() => ({ status: "active" })),
    ClinicClosed: createUpdateHandler(() => ({ status: "closed" })),
    SubscriptionChanged: createUpdateHandler(({ data: { plan, status, currentPeriodEnd } }) => ({
      subscription: { plan, status, currentPeriodEnd },
    })),
    BookingRulesSet: createUpdateHandler(({ data }) => ({ slot_grid_minutes: data.gridMinutes })),
    RetentionRuleSet: createUpdateHandler(({ data }, row) => ({
      retention_months: setRetentionMonths(row.retention_months, data),
    })),
  },
});

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

/** The clinic and branch that each user last selected in the portal. */
export const clinicSelections = defineReadModel({
  table: "clinic_selection",
  columns: { user_id: "uuid", selected_clinic_id: "uuid", branch_id: "uuid", selected_at: "timestamptz" },
  nullable: ["branch_id"],
  primaryKey: ["user_id"],
  indexes: [],
  key: (event) => [event.data.userId],
  on: {
    ClinicSelected: (_, { data: { userId, clinicId, branchId }, metadata }) => ({
      user_id: userId,
      selected_clinic_id: clinicId,
      branch_id: branchId,
      selected_at: metadata.occurredAt,
    }),
    PortalUserDataErased: () => undefined,
  },
});

export const entitlements = defineReadModel({
  table: "entitlement",
  columns: {
    clinic_id: "uuid",
    key: "text",
    enabled: "boolean",
    amount: "numeric",
    effective_until: "timestamptz",
  },
  nullable: ["amount", "effective_until"],
  primaryKey: ["clinic_id", "key"],
  indexes: [],
  key: (event) => [event.data.clinicId, event.data.key],
  on: {
    EntitlementSet: (_, { data }) => ({ ...toColumns(data), amount: data.limit }),
  },
});
