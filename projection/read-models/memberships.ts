import { membershipStreams } from "../../shared/domain/events/people.ts";
import { createUpdateHandler, defineReadModel, toColumns } from "../engine/read-model.ts";

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
