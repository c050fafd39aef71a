import { z } from "zod";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { clinicFields, instant, uuid } from "../http/fields.ts";
import { entitlementInEffectSql } from "./authorization.ts";
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
