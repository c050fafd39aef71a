import type { Permission } from "../../shared/domain/events/people.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";

/** Requirements of a portal operation, in addition to a session and an active membership. */
export interface Requirement {
  /** If true, the membership must cover at least one branch of the clinic. */
  requiresBranch: boolean;
  permission: Permission | null;
  /** Key of an entitlement that must be in effect. */
  entitlement: string | null;
  /** If true, the clinic must have operational access. */
  requiresOperationalAccess: boolean;
}

const branchRequirement = {
  requiresBranch: true,
  permission: null,
  entitlement: null,
  requiresOperationalAccess: false,
} as const;
const operationalRequirement = { ...branchRequirement, requiresOperationalAccess: true } as const;

/** Requirements of all portal operations. */
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

/** Error codes of the portal's 403 responses, in the order of the checks. */
export type Refusal =
  | "no_active_membership"
  | "branch_not_in_scope"
  | "permission_required"
  | "entitlement_required"
  | "operational_access_denied";

/** SQL that is true if the entitlement `e` is in effect at the request's time. */
export const entitlementInEffectSql =
  "(e.enabled AND (e.effective_until IS NULL OR e.effective_until > $2::timestamptz))";

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
