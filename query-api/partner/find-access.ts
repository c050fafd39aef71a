import { z } from "zod";
import { uuid } from "../../shared/domain/events/fields.ts";
import { rateLimit, scope } from "../../shared/domain/events/partner.ts";
import { DEFAULT_RATE_LIMIT_PER_MINUTE } from "../../shared/domain/partner/installation.ts";
import type { AccessRecord, FindAccess } from "../../shared/partner-api/access.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { ReadRow } from "../http/read.ts";

/**
 * Looks up the access data. The installation is null unless it is approved and its clinic belongs to the application's
 * environment.
 */
const accessStatement = {
  name: "partner access",
  text: `SELECT
    coalesce(NOT a.revoked AND a.credential_ids ? $2, false) AS "isCredentialActive",
    coalesce(a.scopes, '[]') AS "applicationScopes",
    CASE WHEN c.clinic_id IS NOT NULL THEN json_build_object('scopes', i.scopes, 'branchIds', i.branch_ids,
      'rateLimitPerMinute', coalesce(i.rate_limit_per_minute, ${DEFAULT_RATE_LIMIT_PER_MINUTE})) END AS installation
  FROM (VALUES (1)) request
  LEFT JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = $1::uuid AND a.environment = $3
  LEFT JOIN ${READ_MODEL_SCHEMA}.installation i
    ON i.application_id = a.application_id AND i.clinic_id = $4::uuid AND i.status = 'approved'
  LEFT JOIN ${READ_MODEL_SCHEMA}.clinic c ON c.clinic_id = i.clinic_id AND c.environment = a.environment`,
};

const accessRecordSchema = z.object({
  isCredentialActive: z.boolean(),
  applicationScopes: z.array(scope),
  installation: z
    .object({
      scopes: z.array(scope),
      branchIds: z.array(uuid).nullable(),
      rateLimitPerMinute: rateLimit,
    })
    .nullable(),
}) satisfies z.ZodType<AccessRecord>;

export function createAccessFinder(readRow: ReadRow, deadline: number): FindAccess {
  return async ({ applicationId, credentialId, environment, clinicId }) =>
    accessRecordSchema.parse(
      await readRow(accessStatement, [applicationId, credentialId, environment, clinicId], deadline),
    );
}
