import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
/**
 * Returns an SQL condition that is true if the installation covers the branch and the branch header allows it.
 * $2: branches of the installation, null for all. $3: branch header, null if absent.
 */
export function buildIsBranchVisibleSql(column: string): string {
  return `(($2::uuid[] IS NULL OR ${column} = ANY ($2::uuid[])) AND ($3::uuid IS NULL OR ${column} = $3::uuid))`;
}

/** SQL that returns `branch_denied` if the branch header ($3) names a branch that the clinic ($1) does not have. */
export const branchRefusalSql = `CASE WHEN $3::uuid IS NOT NULL AND NOT EXISTS (
    SELECT FROM ${READ_MODEL_SCHEMA}.branch b WHERE b.clinic_id = $1::uuid AND b.branch_id = $3::uuid
  ) THEN 'branch_denied' END`;
