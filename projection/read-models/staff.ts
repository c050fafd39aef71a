import { membershipStreams } from "../../shared/domain/events/people.ts";
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

export const memberships = defineReadModel({
  table: "membership",
  columns: {
    membership_id: "uuid",
    clinic_id: "uuid",
    user_id: "uuid",
    staff_id: "uuid",
    role: "text",
    permissions: "jsonb",
    branch_access: "text",
    branch_ids: "jsonb",
    status: "text",
    accepted_at: "timestamptz",
    created_at: "timestamptz",
  },
  nullable: ["staff_id", "accepted_at"],
  primaryKey: ["membership_id"],
  revokingStreams: membershipStreams,
  indexes: ["user_id, created_at, membership_id", "clinic_id"],
  key: (event) => [event.data.membershipId],
  on: {
    MembershipGranted: (_, { data, metadata }) => ({
      ...toColumns(data),
      status: data.acceptedAt === null ? "invited" : "active",
      created_at: metadata.occurredAt,
    }),
    MembershipAccepted: createUpdateHandler(({ metadata }) => ({
      status: "active",
      accepted_at: metadata.occurredAt,
    })),
    MembershipPermissionsChanged: createUpdateHandler(({ data }) => toColumns(data)),
    MembershipRevoked: createUpdateHandler(() => ({ status: "revoked" })),
  },
});
