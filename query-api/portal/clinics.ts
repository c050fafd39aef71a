import { z } from "zod";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { clinicFields, instant, uuid } from "../http/fields.ts";
import { buildBranchIdsSql, buildIsInScopeSql, entitlementInEffectSql } from "./authorization.ts";
import { datedEnvelope, defineOperation } from "./operation.ts";

const entitlementSchema = z.strictObject({
  enabled: z.boolean().describe("True if the entitlement is in effect at the time of the response."),
  limit: z.number().nullable(),
  effectiveUntil: instant.nullable(),
});

const subscriptionSchema = z.strictObject({
  plan: z.string(),
  status: z.string(),
  currentPeriodEnd: instant.nullable(),
});

export const getClinicContext = defineOperation({
  operationId: "getClinicContext",
  path: "/api/v1/clinic/context",
  summary: "Get the clinic context",
  description:
    "Returns the clinic and branch of the session, the user's role and permissions, the operational access, and the entitlements of the clinic's plan.",
  response: z.looseObject({
    ...datedEnvelope,
    clinic: z.strictObject({ ...clinicFields, isDemo: z.boolean() }),
    branch: z.strictObject({ id: uuid, name: z.string(), city: z.string().nullable() }),
    access: z.strictObject({
      role: z.string(),
      permissions: z.array(z.string()),
      operational: z.strictObject({
        allowed: z.boolean().describe("If false, most operations return 403 `operational_access_denied`."),
        reason: z
          .string()
          .nullable()
          .describe(
            "Reason why the clinic has no operational access: `clinic_suspended`, `clinic_closed`, `demo_expired` or `subscription_inactive`. Null if the clinic has operational access.",
          ),
      }),
    }),
    subscription: subscriptionSchema.nullable(),
    entitlements: z.record(z.string(), entitlementSchema),
  }),
  sql: `SELECT json_build_object(
    'clinic', json_build_object('id', access.clinic_id, 'slug', access.slug, 'name', access.name,
      'timezone', access.timezone, 'currency', access.currency, 'locale', access.locale,
      'status', access.status, 'isDemo', access.is_demo),
    'branch', json_build_object('id', access.branch_id, 'name', access.branch_name, 'city', access.branch_city),
    'access', json_build_object('role', access.role, 'permissions', access.permissions,
      'operational', json_build_object('allowed', access.not_operational_because IS NULL,
        'reason', access.not_operational_because)),
    'subscription', access.subscription,
    'entitlements', coalesce((
      SELECT json_object_agg(e.key, json_build_object('enabled', ${entitlementInEffectSql},
        'limit', e.amount, 'effectiveUntil', rfc3339(e.effective_until)) ORDER BY e.key COLLATE "C")
      FROM ${READ_MODEL_SCHEMA}.entitlement e WHERE e.clinic_id = access.clinic_id), '{}'))`,
});

/** Maximum number of clinics in the list. The list needs no pages, because no user has as many memberships. */
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

/** Maximum number of branches in the list. The list needs no pages, because no clinic has as many branches. */
const MAX_BRANCHES = 1_000;

const branchSchema = z.strictObject({
  id: uuid,
  name: z.string(),
  city: z.string().nullable(),
  isMain: z.boolean(),
  isCurrent: z.boolean(),
});

export const listAuthorizedBranches = defineOperation({
  operationId: "listAuthorizedBranches",
  path: "/api/v1/branches",
  summary: "List the clinic's branches",
  description: "Lists the branches of the selected clinic that the user can access, sorted by name.",
  response: z.strictObject({
    ...datedEnvelope,
    clinicId: uuid,
    currentBranchId: uuid,
    branches: z.array(branchSchema),
  }),
  sql: `SELECT json_build_object(
    'clinicId', access.clinic_id,
    'currentBranchId', access.branch_id,
    'branches', coalesce(json_agg(json_build_object('id', b.branch_id, 'name', b.name, 'city', b.city,
      'isMain', b.is_main, 'isCurrent', b.branch_id = access.branch_id) ORDER BY ${buildNameSortSql("b.name")}, b.branch_id), '[]'))
  FROM (
    SELECT * FROM ${READ_MODEL_SCHEMA}.branch
    WHERE branch.clinic_id = access.clinic_id AND ${buildIsInScopeSql("access", "branch.branch_id")}
    ORDER BY ${buildNameSortSql("name")}, branch_id
    LIMIT ${MAX_BRANCHES}
  ) b`,
});
