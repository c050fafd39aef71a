import { byName } from "../../shared/postgres/by-name.ts";
import { type Requirement, refusalConditions } from "./authorization.ts";

/**
 * Why a clinic `c` has no operational access, null where it has. A subscription that has run out is judged by the
 * clock of the request, not by whether somebody has recorded its end yet: a trial and a cancelled subscription last
 * until the end of their period. A paid one whose renewal is late goes on until it is recorded as past it. Only a
 * demo may do without a subscription.
 */
const operationalRefusalReason = `CASE
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
 * At most one row: the clinic and branch that the server resolves for the user $1 at the time $2, and what the user
 * may do there. Clinic: the selected one if the user is still an active member, else that of the oldest active
 * membership. Branch: the selected one if in scope, else the main branch if in scope, else the first in scope.
 */
const access = `SELECT c.*, m.role, m.permissions, b.branch_id, b.name AS branch_name, b.city AS branch_city,
    m.branch_access, m.branch_ids, ${operationalRefusalReason} AS not_operational_because
  FROM (
    SELECT member.*, s.branch_id AS selected_branch_id
    FROM read_model.membership member
    JOIN read_model.clinic USING (clinic_id)
    LEFT JOIN read_model.selection s ON s.user_id = member.user_id AND s.clinic_id = member.clinic_id
    WHERE member.user_id = $1::uuid AND member.status = 'active'
    ORDER BY s.user_id IS NULL, member.created_at, member.membership_id
    LIMIT 1
  ) m
  JOIN read_model.clinic c ON c.clinic_id = m.clinic_id
  LEFT JOIN LATERAL (
    SELECT * FROM read_model.branch
    WHERE branch.clinic_id = c.clinic_id AND ${inScope("m", "branch.branch_id")}
    ORDER BY branch.branch_id IS NOT DISTINCT FROM m.selected_branch_id DESC, is_main DESC, ${byName("name")}, branch_id
    LIMIT 1
  ) b ON true`;

/** Whether a branch is in the scope of a membership; `member` names a row with branch_access and branch_ids. */
export function inScope(member: string, branchId: string): string {
  return `(${member}.branch_access = 'all' OR ${member}.branch_ids ? ${branchId}::text)`;
}

/** The branches in a membership's scope, as JSON; none are named for one with access to all. */
export function branchIdsOf(member: string): string {
  return `CASE WHEN ${member}.branch_access = 'all' THEN '[]' ELSE coalesce((
    SELECT json_agg(b.branch_id ORDER BY ${byName("b.name")}, b.branch_id) FROM read_model.branch b
    WHERE b.clinic_id = ${member}.clinic_id AND ${inScope(member, "b.branch_id")}), '[]') END`;
}

/** What the answer to a portal request comes from. */
export interface PortalRow {
  /** Null: let through. */
  refusal: string | null;
  /** The body's JSON object, null where refused. */
  body: string | null;
}

/**
 * The one statement of an operation: the authorization context, the judgement and the data, in one round trip. The
 * data is read only where the judgement allows it.
 *
 * @param data a SELECT of one JSON object over the row `access`; its parameters start at $3
 */
export function guardedSql(requirement: Requirement, data: string): string {
  const judgement = refusalConditions(requirement).map(
    ([refusal, condition]) => `WHEN ${condition} THEN '${refusal}'`,
  );
  return `SELECT judged.refusal, CASE WHEN judged.refusal IS NULL THEN (${data})::text END AS body
FROM (VALUES (1)) request
LEFT JOIN (${access}) access ON true
CROSS JOIN LATERAL (SELECT CASE ${judgement.join(" ")} END AS refusal) judged`;
}
