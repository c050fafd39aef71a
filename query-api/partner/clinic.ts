import { z } from "zod";
import { installationAccess, publicInstallation, publicSandbox } from "../../shared/partner-api/records.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { clinicFields, uuid } from "../http/fields.ts";
import { buildIsBranchVisibleSql, definePartnerRead } from "./read.ts";

const MAX_INSTALLATIONS = 1_000;

const installationsBody = z.object({ installations: z.array(publicInstallation.schema) });

export const listInstallations = definePartnerRead({
  operationId: "listInstallations",
  description: `Lists the clinics that have approved your application, sorted by name, at most ${MAX_INSTALLATIONS}. In the sandbox environment, the list contains your application's sandbox. The request needs no clinic header.`,
  response: z.strictObject({ ok: z.literal(true), installations: z.array(publicInstallation.schema) }),
  refusals: {},
  sql: `SELECT NULL AS refusal, json_build_object('installations', coalesce(json_agg(${publicInstallation.sql}
      ORDER BY ${buildNameSortSql("i.clinic_name")}, i.clinic_id), '[]'))::text AS body
    FROM (
      SELECT i.*, c.name AS clinic_name
      FROM ${READ_MODEL_SCHEMA}.installation i
      JOIN ${READ_MODEL_SCHEMA}.clinic c ON c.clinic_id = i.clinic_id AND c.environment = $2
      WHERE i.application_id = $1::uuid AND i.status = 'approved'
      ORDER BY ${buildNameSortSql("c.name")}, c.clinic_id
      LIMIT ${MAX_INSTALLATIONS}
    ) i`,
  getSqlParameters: ({ state: { applicationId, environment } }) => [applicationId, environment],
  /** Throws an error if a listed installation is damaged. For other operations, the access check does this. */
  completeBody(body) {
    installationsBody.parse(JSON.parse(body));
    return body;
  },
});

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

export const getSandboxState = definePartnerRead({
  operationId: "getSandboxState",
  description:
    "Returns your application's sandbox with its clinic, branches and animals. Your application needs no approval for this clinic, and the request needs no clinic header.",
  response: z.strictObject({ ok: z.literal(true), sandbox: publicSandbox.schema }),
  refusals: { sandbox_only: 403 },
  sql: `SELECT NULL AS refusal, json_build_object('sandbox', ${publicSandbox.sql})::text AS body
    FROM ${READ_MODEL_SCHEMA}.sandbox s WHERE s.clinic_id = $1::uuid AND s.application_id = $2::uuid`,
  getSqlParameters: ({ state: { clinicId, applicationId } }) => [clinicId, applicationId],
});
