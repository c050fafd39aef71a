import { z } from "zod";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { clinicFields, instant, uuid } from "../http/fields.ts";
import { buildBranchIdsSql } from "./authorization.ts";
import { datedEnvelope, defineOperation } from "./operation.ts";

/** The list has no pages, because every user has fewer memberships than this. */
const MAX_CLINICS = 500;

const clinicSchema = z.strictObject({
  ...clinicFields,
  city: z.string().nullable(),
  isDemo: z.boolean(),
  demoExpiresAt: instant.nullable(),
  access: z.strictObject({
    role: z.string(),
    branchAccess: z.string().describe("`all` or `scoped`."),
    branchIds: z.array(uuid).describe("Branches that the user can access. Empty if `branchAccess` is `all`."),
  }),
});

/** Selects the user's oldest active membership at each clinic. The access check uses the same membership. */
const membershipsOfUserSql = `SELECT DISTINCT ON (clinic_id) * FROM ${READ_MODEL_SCHEMA}.membership
  WHERE user_id = $1::uuid AND status = 'active'
  ORDER BY clinic_id, created_at, membership_id`;

export const listAuthorizedClinics = defineOperation({
  operationId: "listAuthorizedClinics",
  path: "/api/v1/clinics",
  summary: "List the user's clinics",
  description:
    "Lists the clinics where the signed-in user is an active member, sorted by name. The list includes suspended and closed clinics.",
  response: z.strictObject({ ...datedEnvelope, currentClinicId: uuid, clinics: z.array(clinicSchema) }),
  sql: `SELECT json_build_object(
    'currentClinicId', access.clinic_id,
    'clinics', json_agg(json_build_object('id', c.clinic_id, 'slug', c.slug, 'name', c.name,
      'timezone', c.timezone, 'currency', c.currency, 'locale', c.locale, 'status', c.status, 'city', c.city,
      'isDemo', c.is_demo, 'demoExpiresAt', rfc3339(c.demo_expires_at),
      'access', json_build_object('role', c.role, 'branchAccess', c.branch_access,
        'branchIds', ${buildBranchIdsSql("c")})) ORDER BY ${buildNameSortSql("c.name")}, c.clinic_id))
  FROM (
    SELECT clinic.*, m.role, m.branch_access, m.branch_ids
    FROM (${membershipsOfUserSql}) m JOIN ${READ_MODEL_SCHEMA}.clinic USING (clinic_id)
    ORDER BY ${buildNameSortSql("clinic.name")}, clinic.clinic_id
    LIMIT ${MAX_CLINICS}
  ) c`,
});
