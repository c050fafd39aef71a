/**
 * Returns the SQL condition for a visible branch: it belongs to the installation ($2, null for all branches) and
 * matches the branch header ($3, null if absent). $1 is the clinic.
 */
export function branchVisible(branchId: string): string {
  return `(($2::uuid[] IS NULL OR ${branchId} = ANY ($2::uuid[])) AND ($3::uuid IS NULL OR ${branchId} = $3::uuid))`;
}

/** SQL that returns `branch_denied` if the clinic does not have the branch of the branch header. */
export const branchRefusal = `CASE WHEN $3::uuid IS NOT NULL AND NOT EXISTS (
    SELECT FROM read_model.branch b WHERE b.clinic_id = $1::uuid AND b.branch_id = $3::uuid
  ) THEN 'branch_denied' END`;
