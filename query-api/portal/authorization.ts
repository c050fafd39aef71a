import type { Permission } from "../../shared/domain/events/people.ts";

/** What an operation asks of a caller, beyond a session and an active membership of a clinic. */
export interface Requirement {
  /** A branch within the member's scope. */
  branch: boolean;
  permission: Permission | null;
  /** The key of an entitlement that must be enabled and in effect. */
  entitlement: string | null;
  /** Whether the clinic must be operational: active, its demo not over, its subscription not lapsed. */
  operational: boolean;
}

const resolved = { branch: true, permission: null, entitlement: null, operational: false } as const;
const operational = { ...resolved, operational: true } as const;

/** The whole authorization of the portal API: every operation and what it asks. */
export const requirements = {
  getClinicContext: resolved,
  listAuthorizedClinics: { ...resolved, branch: false },
  listAuthorizedBranches: operational,
  listServices: operational,
  listStaff: { ...operational, permission: "manage_staff" },
  listCustomerProjections: { ...operational, permission: "view_clinical" },
  listAppointments: { ...operational, permission: "manage_schedule" },
  getAvailability: { ...operational, entitlement: "scheduling.advanced" },
  getQueue: operational,
} as const satisfies Record<string, Requirement>;

export type PortalOperationId = keyof typeof requirements;

/** Why a signed-in user is refused with 403, in the order in which it is judged. */
export const refusals = [
  "no_active_membership",
  "branch_not_in_scope",
  "permission_required",
  "entitlement_required",
  "operational_access_denied",
] as const;
export type Refusal = (typeof refusals)[number];

/** Whether an entitlement, the row `e`, is in effect at the time of the request. */
export const entitlementInEffect =
  "(e.enabled AND (e.effective_until IS NULL OR e.effective_until > $2::timestamptz))";

/**
 * The refusals that a requirement can lead to, each with the SQL condition for it over the row `access`. Whoever
 * documents an operation and whoever asks Postgres read the same list.
 */
export function refusalConditions(requirement: Requirement): [Refusal, string][] {
  const { branch, permission, entitlement } = requirement;
  const conditions: [Refusal, string][] = [["no_active_membership", "access.clinic_id IS NULL"]];
  if (branch) conditions.push(["branch_not_in_scope", "access.branch_id IS NULL"]);
  if (permission) conditions.push(["permission_required", `NOT access.permissions ? '${permission}'`]);
  if (entitlement) {
    const found = `SELECT FROM read_model.entitlement e
      WHERE e.clinic_id = access.clinic_id AND e.key = '${entitlement}' AND ${entitlementInEffect}`;
    conditions.push(["entitlement_required", `NOT EXISTS (${found})`]);
  }
  if (requirement.operational) {
    conditions.push(["operational_access_denied", "access.not_operational_because IS NOT NULL"]);
  }
  return conditions;
}
