import { z } from "zod";
import { publicSandbox } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { definePartnerRead } from "./read.ts";

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
