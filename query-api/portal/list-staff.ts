import { z } from "zod";
import { email } from "../../shared/domain/events/fields.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { instant, uuid } from "../http/fields.ts";
import { buildBranchIdsSql } from "./authorization.ts";
import { datedEnvelope, defineOperation } from "./operation.ts";

/** The list has no pages, because every clinic has fewer staff members than this. */
const MAX_STAFF_MEMBERS = 1_000;

const staffMemberSchema = z.strictObject({
  id: uuid,
  userId: uuid.nullable(),
  fullName: z.string().nullable(),
  email: email.nullable(),
  role: z.string(),
  active: z.boolean(),
  createdAt: instant,
  access: z
    .strictObject({
      membershipId: uuid,
      status: z.string(),
      branchAccess: z.string().describe("`all` or `scoped`."),
      branchIds: z.array(uuid).describe("Branches that the member can access. Empty if `branchAccess` is `all`."),
      acceptedAt: instant.nullable(),
    })
    .nullable(),
});

/**
 * Selects one membership of staff member `s`. The membership refers to the staff member, or to no staff member but to
 * the user of `s`. Prefers the oldest active membership, which decides about access, then the newest invited
 * one, then the newest revoked one.
 */
const membershipOfStaffSql = `SELECT * FROM ${READ_MODEL_SCHEMA}.membership m
  WHERE m.clinic_id = s.clinic_id
    AND (m.staff_id = s.staff_id OR (m.staff_id IS NULL AND m.user_id = s.user_id))
  ORDER BY m.status = 'active' DESC, m.status = 'invited' DESC,
    CASE WHEN m.status = 'active' THEN m.created_at END, m.created_at DESC, m.membership_id
  LIMIT 1`;

export const listStaff = defineOperation({
  operationId: "listStaff",
  path: "/api/v1/staff",
  summary: "List the clinic's staff",
  description: "Lists the staff members of the selected clinic with their portal access, sorted by name.",
  response: z.strictObject({ ...datedEnvelope, clinicId: uuid, staff: z.array(staffMemberSchema) }),
  sql: `SELECT json_build_object(
    'clinicId', access.clinic_id,
    'staff', coalesce(json_agg(json_build_object('id', s.staff_id, 'userId', s.user_id, 'fullName', s.full_name,
      'email', s.email, 'role', s.role, 'active', s.active, 'createdAt', rfc3339(s.created_at),
      'access', CASE WHEN m.membership_id IS NOT NULL THEN json_build_object('membershipId', m.membership_id,
        'status', m.status, 'branchAccess', m.branch_access, 'branchIds', ${buildBranchIdsSql("m")},
        'acceptedAt', rfc3339(m.accepted_at)) END) ORDER BY ${buildNameSortSql("s.full_name")}, s.staff_id), '[]'))
  FROM (
    SELECT * FROM ${READ_MODEL_SCHEMA}.staff WHERE staff.clinic_id = access.clinic_id
    ORDER BY ${buildNameSortSql("full_name")}, staff_id
    LIMIT ${MAX_STAFF_MEMBERS}
  ) s
  LEFT JOIN LATERAL (${membershipOfStaffSql}) m ON true`,
});
