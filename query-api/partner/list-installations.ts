import { z } from "zod";
import { publicInstallation } from "../../shared/partner-api/records.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { definePartnerRead } from "./read.ts";

const MAX_INSTALLATIONS = 1_000;

const sqlBody = z.object({ installations: z.array(publicInstallation.schema) });

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
  /** Fails if an installation is damaged. Other operations notice this in the access check, which reads one installation. */
  completeBody(body) {
    sqlBody.parse(JSON.parse(body));
    return body;
  },
});
