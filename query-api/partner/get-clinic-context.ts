import { z } from "zod";
import { installationAccess } from "../../shared/partner-api/records.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { clinicFields, uuid } from "../http/fields.ts";
import { buildIsBranchVisibleSql, definePartnerRead } from "./read.ts";

export const getClinicContext = definePartnerRead({
  operationId: "getClinicContext",
  description:
    "Returns the clinic, the branches that the installation covers, and the installation's scopes. If the request has a branch header, the list contains only that branch.",
  response: z.strictObject({
    ok: z.literal(true),
    clinic: z.strictObject(clinicFields),
    branches: z.array(z.strictObject({ id: uuid, name: z.string(), city: z.string().nullable(), isMain: z.boolean() })),
    installation: installationAccess.schema,
  }),
  refusals: {},
  sql: `SELECT NULL AS refusal, json_build_object(
      'clinic', json_build_object('id', c.clinic_id, 'slug', c.slug, 'name', c.name, 'timezone', c.timezone,
        'currency', c.currency, 'locale', c.locale, 'status', c.status),
      'branches', coalesce((
        SELECT json_agg(json_build_object('id', b.branch_id, 'name', b.name, 'city', b.city,
          'isMain', b.is_main) ORDER BY ${buildNameSortSql("b.name")}, b.branch_id)
        FROM ${READ_MODEL_SCHEMA}.branch b WHERE b.clinic_id = c.clinic_id AND ${buildIsBranchVisibleSql("b.branch_id")}), '[]'),
      'installation', json_build_object('scopes', $4::jsonb, 'branchIds', $2::uuid[],
        'animalAccess', $6::text,
        'rateLimitPerMinute', $5::integer))::text AS body
    FROM ${READ_MODEL_SCHEMA}.clinic c WHERE c.clinic_id = $1::uuid`,
  getSqlParameters: ({ state: { clinicId, installation, branchId } }) => [
    clinicId,
    installation.branchIds,
    branchId,
    JSON.stringify(installation.scopes),
    installation.rateLimitPerMinute,
    installation.animalAccess,
  ],
});
