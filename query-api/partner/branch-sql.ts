/**
 * SQL for what a request may see of branches: the installation's ($2, null for all of them) and, of these, the one
 * that the branch header names ($3, null where there is none). $1 is the clinic.
 */
export function branchVisible(branchId: string): string {
  return `(($2::uuid[] IS NULL OR ${branchId} = ANY ($2::uuid[])) AND ($3::uuid IS NULL OR ${branchId} = $3::uuid))`;
}

/** `branch_denied` where the branch header names a branch that the clinic does not have. */
export const branchRefusal = `CASE WHEN $3::uuid IS NOT NULL AND NOT EXISTS (
    SELECT FROM read_model.branch b WHERE b.clinic_id = $1::uuid AND b.branch_id = $3::uuid
  ) THEN 'branch_denied' END`;
