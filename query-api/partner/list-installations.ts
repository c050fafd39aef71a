import { z } from "zod";
import { animalAccess, rateLimit, scope } from "../../shared/domain/events/partner.ts";
import { DEFAULT_RATE_LIMIT_PER_MINUTE } from "../../shared/domain/partner/installation.ts";
import { animalAccessText } from "../../shared/partner-api/records.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { uuid } from "../http/fields.ts";
import { definePartnerRead } from "./read.ts";

const MAX_INSTALLATIONS = 1_000;

const installationRecord = z.strictObject({
  clinicId: uuid.describe("Id of the clinic, for the clinic header of other operations."),
  clinicName: z.string(),
  scopes: z.array(scope),
  branchIds: z.array(uuid).nullable().describe("Branches that the installation covers; null for all branches."),
  animalAccess: animalAccess.describe(animalAccessText),
  rateLimitPerMinute: rateLimit,
});

const sqlBody = z.object({ installations: z.array(installationRecord) });

export const listInstallations = definePartnerRead({
  operationId: "listInstallations",
  description: `Lists the clinics that have approved your application, sorted by name, at most ${MAX_INSTALLATIONS}. In the sandbox environment, the list contains your application's sandbox. The request needs no clinic header.`,
  response: z.strictObject({ ok: z.literal(true), installations: z.array(installationRecord) }),
  refusals: {},
  sql: `SELECT NULL AS refusal, json_build_object('installations', coalesce(json_agg(json_build_object(
      'clinicId', i.clinic_id, 'clinicName', i.name, 'scopes', i.scopes, 'branchIds', i.branch_ids, 'animalAccess', i.animal_access,
      'rateLimitPerMinute', i.rate_limit) ORDER BY ${buildNameSortSql("i.name")}, i.clinic_id), '[]'))::text AS body
    FROM (
      SELECT c.clinic_id, c.name, i.scopes, i.branch_ids, i.animal_access,
        coalesce(i.rate_limit_per_minute, ${DEFAULT_RATE_LIMIT_PER_MINUTE}) AS rate_limit
      FROM ${READ_MODEL_SCHEMA}.installation i
      JOIN ${READ_MODEL_SCHEMA}.clinic c ON c.clinic_id = i.clinic_id AND c.environment = $2
      WHERE i.application_id = $1::uuid AND i.status = 'approved'
      ORDER BY ${buildNameSortSql("c.name")}, c.clinic_id
      LIMIT ${MAX_INSTALLATIONS}
    ) i`,
  getSqlParameters: ({ state: { applicationId, environment } }) => [applicationId, environment],
  /** Fails if an installation is damaged. Other operations notice this in the access check, which reads one installation. */
  completeBody(body) {
    sqlBody.parse(JSON.parse(body));
    return body;
  },
});
