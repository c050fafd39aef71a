import type { Permission } from "../../shared/domain/events/people.ts";
import { buildEntitlementInEffectSql } from "../../shared/partner-api/slot-search.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";

interface Requirement {
  /** If true, the membership must cover at least one branch of the clinic. */
  requiresBranch: boolean;
  permission: Permission | null;
  /** Key of an entitlement that must be in effect. Null if none is required. */
  entitlement: string | null;
  requiresOperationalAccess: boolean;
}

const branchRequirement = {
  requiresBranch: true,
  permission: null,
  entitlement: null,
  requiresOperationalAccess: false,
} as const;
const operationalRequirement = { ...branchRequirement, requiresOperationalAccess: true } as const;

export const requirements = {
  getClinicContext: branchRequirement,
  listAuthorizedClinics: { ...branchRequirement, requiresBranch: false },
  listAuthorizedBranches: operationalRequirement,
  listServices: operationalRequirement,
  listStaff: { ...operationalRequirement, permission: "manage_staff" },
  listCustomerProjections: { ...operationalRequirement, permission: "view_clinical" },
  listAppointments: { ...operationalRequirement, permission: "manage_schedule" },
  getAvailability: { ...operationalRequirement, entitlement: "scheduling.advanced" },
  getQueue: operationalRequirement,
} as const satisfies Record<string, Requirement>;

export type PortalOperationId = keyof typeof requirements;

/** Error codes of refusals, in the order of the checks. */
export type Refusal =
  | "no_active_membership"
  | "branch_not_in_scope"
  | "permission_required"
  | "entitlement_required"
  | "operational_access_denied";

export const entitlementInEffectSql = buildEntitlementInEffectSql("$2::timestamptz");

/**
 * Lists the error codes of an operation's 403 responses, each with its SQL condition on the row `access`. The OpenAPI
 * document and the operation's SQL both use this list.
 */
export function listRefusalConditions(requirement: Requirement): [Refusal, string][] {
  const { requiresBranch, permission, entitlement } = requirement;
  const conditions: [Refusal, string][] = [["no_active_membership", "access.clinic_id IS NULL"]];
  if (requiresBranch) conditions.push(["branch_not_in_scope", "access.branch_id IS NULL"]);
  if (permission) conditions.push(["permission_required", `NOT access.permissions ? '${permission}'`]);
  if (entitlement) {
    const activeEntitlementSql = `SELECT FROM ${READ_MODEL_SCHEMA}.entitlement e
      WHERE e.clinic_id = access.clinic_id AND e.key = '${entitlement}' AND ${entitlementInEffectSql}`;
    conditions.push(["entitlement_required", `NOT EXISTS (${activeEntitlementSql})`]);
  }
  if (requirement.requiresOperationalAccess) {
    conditions.push(["operational_access_denied", "access.not_operational_because IS NOT NULL"]);
  }
  return conditions;
}

/**
 * SQL for the reason why a clinic `c` has no operational access. Null if the clinic has operational access. Expiry is
 * compared with the request's time ($2). A trial or cancelled subscription expires at the end of its period. An active
 * or past-due subscription does not expire at the end of its period, because renewals may be late. Every clinic except
 * a demo needs a subscription.
 */
const operationalRefusalReasonSql = `CASE
    WHEN c.status = 'suspended' THEN 'clinic_suspended'
    WHEN c.status <> 'active' THEN 'clinic_closed'
    WHEN c.is_demo AND c.demo_expires_at <= $2::timestamptz THEN 'demo_expired'
    WHEN c.subscription IS NULL THEN CASE WHEN NOT c.is_demo THEN 'subscription_inactive' END
    WHEN c.subscription ->> 'status' IN ('active', 'past_due') THEN NULL
    WHEN c.subscription ->> 'status' = 'trialing'
      AND coalesce((c.subscription ->> 'currentPeriodEnd')::timestamptz > $2::timestamptz, true) THEN NULL
    WHEN c.subscription ->> 'status' = 'cancelled'
      AND (c.subscription ->> 'currentPeriodEnd')::timestamptz > $2::timestamptz THEN NULL
    ELSE 'subscription_inactive'
  END`;

/**
 * SQL that returns at most one row, with the clinic, the branch and the membership of user $1 at time $2. The clinic is
 * the selected clinic if the user is still an active member there. Otherwise, it is the clinic of the oldest active
 * membership. The branch must be in the membership's scope. The order of preference is: the selected branch, the main
 * branch, then the other branches in order of their names.
 */
const accessSql = `SELECT c.*, m.role, m.permissions, m.branch_access, m.branch_ids, b.branch_id, b.name AS branch_name,
    b.city AS branch_city, ${operationalRefusalReasonSql} AS not_operational_because
  FROM (
    SELECT member.clinic_id, member.role, member.permissions, member.branch_access, member.branch_ids,
      s.branch_id AS selected_branch_id
    FROM ${READ_MODEL_SCHEMA}.membership member
    JOIN ${READ_MODEL_SCHEMA}.clinic USING (clinic_id)
    LEFT JOIN ${READ_MODEL_SCHEMA}.clinic_selection s ON s.user_id = member.user_id AND s.selected_clinic_id = member.clinic_id
    WHERE member.user_id = $1::uuid AND member.status = 'active'
    ORDER BY s.user_id IS NULL, member.created_at, member.membership_id
    LIMIT 1
  ) m
  JOIN ${READ_MODEL_SCHEMA}.clinic c ON c.clinic_id = m.clinic_id
  LEFT JOIN LATERAL (
    SELECT branch_id, name, city FROM ${READ_MODEL_SCHEMA}.branch
    WHERE branch.clinic_id = c.clinic_id AND ${buildIsInScopeSql("m", "branch.branch_id")}
    ORDER BY branch.branch_id IS NOT DISTINCT FROM m.selected_branch_id DESC, is_main DESC, ${buildNameSortSql("name")}, branch_id
    LIMIT 1
  ) b ON true`;

/**
 * Returns SQL that is true if a branch is in the scope of row `rowName`, which has `branch_access` and `branch_ids`.
 */
export function buildIsInScopeSql(rowName: string, branchColumn: string): string {
  return `(${rowName}.branch_access = 'all' OR ${rowName}.branch_ids ? ${branchColumn}::text)`;
}

/** Returns SQL for a JSON list of branches, which is empty if the membership covers all branches. */
export function buildBranchIdsSql(rowName: string): string {
  return `CASE WHEN ${rowName}.branch_access = 'all' THEN '[]' ELSE coalesce((
    SELECT json_agg(b.branch_id ORDER BY ${buildNameSortSql("b.name")}, b.branch_id) FROM ${READ_MODEL_SCHEMA}.branch b
    WHERE b.clinic_id = ${rowName}.clinic_id AND ${buildIsInScopeSql(rowName, "b.branch_id")}), '[]') END`;
}

/**
 * Builds the SQL of a portal operation. The SQL resolves clinic and branch, authorizes the request and then reads the
 * data, in one round trip. The SQL returns one row with the text `answer`: the code of the first refusal, or the JSON
 * of `dataSql`. If refusal and JSON were separate columns, Postgres would check every condition twice.
 *
 * @param dataSql SELECT that returns one JSON value; it can use the row `access`, and its parameters start at $3
 */
export function buildAuthorizedSql(requirement: Requirement, dataSql: string): string {
  const refusalCases = listRefusalConditions(requirement).map(
    ([refusal, condition]) => `WHEN ${condition} THEN '${refusal}'`,
  );
  return `SELECT CASE ${refusalCases.join(" ")} ELSE (${dataSql})::text END AS answer
FROM (VALUES (1)) request
LEFT JOIN (${accessSql}) access ON true`;
}
