import { z } from "zod";
import { sandboxRecord } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { definePartnerRead } from "./read.ts";

/** Sorts by the bytes of the name. The response to a sandbox reset has the same order. */
const buildNameOrderSql = (alias: string, column: string) => `ORDER BY ${alias}.name COLLATE "C", ${alias}.${column}`;

export const getSandboxState = definePartnerRead({
  operationId: "getSandboxState",
  description:
    "Returns your application's sandbox with its clinic, branches and animals. Your application needs no approval for this clinic, and the request needs no clinic header.",
  response: z.strictObject({ ok: z.literal(true), sandbox: sandboxRecord }),
  refusals: { sandbox_only: 403 },
  sql: `SELECT NULL AS refusal, json_build_object('sandbox', json_build_object(
      'clinicId', s.clinic_id, 'generation', s.generation, 'resetAt', rfc3339(s.reset_at), 'day', s.day,
      'branches', coalesce((SELECT json_agg(json_build_object('id', b.branch_id, 'name', b.name)
        ${buildNameOrderSql("b", "branch_id")}) FROM ${READ_MODEL_SCHEMA}.branch b WHERE b.clinic_id = s.clinic_id), '[]'),
      'animals', coalesce((SELECT json_agg(json_build_object('id', a.animal_id, 'name', a.name,
        'species', a.species) ${buildNameOrderSql("a", "animal_id")})
        FROM ${READ_MODEL_SCHEMA}.customer c JOIN ${READ_MODEL_SCHEMA}.animal a ON a.customer_id = c.customer_id
        WHERE c.clinic_id = s.clinic_id), '[]'),
      'appointments', (SELECT count(*) FROM ${READ_MODEL_SCHEMA}.appointment p WHERE p.clinic_id = s.clinic_id)
    ))::text AS body
    FROM ${READ_MODEL_SCHEMA}.sandbox s WHERE s.clinic_id = $1::uuid AND s.application_id = $2::uuid`,
  getSqlParameters: ({ state: { clinicId, applicationId } }) => [clinicId, applicationId],
});
