import { change, defineReadModel } from "../engine/read-model.ts";

type MembershipRow = {
  membership_id: string;
  clinic_id: string;
  user_id: string;
  staff_id: string | null;
  role: string;
  permissions: string[];
  branch_access: string;
  branch_ids: string[];
  status: string;
  accepted_at: string | null;
  created_at: string;
};

export const memberships = defineReadModel<MembershipRow>()({
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
  indexes: ["user_id, created_at, membership_id", "clinic_id"],
  key: (event) => [event.data.membershipId],
  on: {
    MembershipGranted: (_, { data, metadata }) => ({
      membership_id: data.membershipId,
      clinic_id: data.clinicId,
      user_id: data.userId,
      staff_id: data.staffId,
      role: data.role,
      permissions: data.permissions,
      branch_access: data.branchAccess,
      branch_ids: data.branchIds,
      status: data.acceptedAt === null ? "invited" : "active",
      accepted_at: data.acceptedAt,
      created_at: metadata.occurredAt,
    }),
    MembershipAccepted: change(({ metadata }) => ({ status: "active", accepted_at: metadata.occurredAt })),
    MembershipPermissionsChanged: change(({ data }) => ({
      role: data.role,
      permissions: data.permissions,
      branch_access: data.branchAccess,
      branch_ids: data.branchIds,
    })),
    MembershipRevoked: change(() => ({ status: "revoked" })),
  },
});
